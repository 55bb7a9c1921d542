// logits_loss and token_logprob: log-probs and entropies from logits, and the gradient by the logits.
//
//   p = softmax(z / T)    logp = (z_target - max) / T - log sum exp((z - max) / T)    H = -sum p log p
//   dz = (g (1[target] - p) - h p (log p + H)) / T        g, h: gradients by logp and H
//
// src/reference/logits.rs is the specification; formulas in docs/losses.md.
//
// Shapes: logits [n_rows, n_columns], of which n_vocab are read; one row for each token.
// Launch: read, one block of 512 threads for each row; write, one for each row and part of 16,384 columns; resident, a cluster
// of blocks for each row, each with its part of the row in shared memory; by, a thread for each row.
// Moves, with V logits of s bytes: read V s; write 2 V s; resident 2 V s for both, and no second read.
// For each logit: read 4 operations and an ex2, write 6 and an ex2. f32 within a thread, then f64 in a fixed order.
// Prediction: dev/cuda.md.

#include "policy_loss.cuh"

namespace logits_loss {

constexpr unsigned THREADS = 512;
constexpr int64_t PART = 16384;
constexpr double LN_2 = 0.693147180559945309417;
constexpr float LOG2_E = 1.44269504088896340736f;

// What a row's softmax is made of. All NaN where the row has NaN, +inf, nothing finite or a target outside the vocabulary.
struct Softmax {
    float max, temperature;
    double log_sum, entropy, log_prob;
};

struct Args {
    const void* logits;
    // May be the logits.
    void* grad;
    const int64_t* targets;
    // The token of each row of logits: where it is in every other array. Absent for the same number.
    const int64_t* tokens;
    // One for each token, or absent.
    const float* temperatures;
    // Rows that are read, or absent for all.
    const uint8_t* mask;
    float *log_prob, *entropy;
    Softmax* softmax;
    float *by_log_prob, *by_entropy;
    int64_t n_rows, n_columns, n_vocab;
    // Columns of a block of a cluster; its shared memory has 16 bytes more.
    int64_t slice;
    float temperature;
    uint32_t dtype;
    // Of the fused kernel: log_prob and entropy in it are written, not read.
    policy_loss::Args policy;
};

// Of the logits that a thread has seen. Sums of 2^d and of 2^d d, d = (z - max) / (T ln 2).
struct Seen {
    float max = -INFINITY, sum = 0.0f, weighted = 0.0f;

    // Makes room for a larger maximum.
    __device__ __forceinline__ void lift(float largest, float scale) {
        if (!(largest > max)) return;
        if (max != -INFINITY) {
            float d = (max - largest) * scale, e = exp2_of(d);
            // e is 0 where d is far below: then what was seen is nothing, and 0 times an infinite d must not be NaN.
            weighted = e == 0.0f ? 0.0f : e * fmaf(d, sum, weighted);
            sum *= e;
        }
        max = largest;
    }
    // A logit of at most `max`. Of -inf nothing, of NaN NaN.
    __device__ __forceinline__ void add(float z, float scale) {
        float d = (z - max) * scale, e = exp2_of(d);
        sum += e;
        weighted += e == 0.0f ? 0.0f : e * d;
    }
    template <class T>
    __device__ __forceinline__ void add(const Pack<T>& pack, float scale) {
        // NaN is never the largest; it makes the sum NaN below, or here where there is nothing else.
        float largest = -INFINITY;
        UNROLL
        for (unsigned i = 0; i < Pack<T>::N; i++) largest = fmaxf(largest, to_float(pack.at[i]));
        if (largest == -INFINITY) {
            UNROLL
            for (unsigned i = 0; i < Pack<T>::N; i++) sum = is_nan(to_float(pack.at[i])) ? NAN : sum;
            return;
        }
        lift(largest, scale);
        UNROLL
        for (unsigned i = 0; i < Pack<T>::N; i++) add(to_float(pack.at[i]), scale);
    }
    __device__ __forceinline__ void add_one(float z, float scale) {
        if (is_nan(z)) sum = NAN;
        if (z == -INFINITY) return;
        lift(z, scale);
        add(z, scale);
    }
};

// The same of many threads, in f64.
struct Whole {
    double max, sum, weighted;
};

struct Max {
    __device__ float operator()(float a, float b) const { return fmaxf(a, b); }
};

// Of all threads of the block; every thread has the result.
__device__ Whole join(const Seen& seen, float scale) {
    SHARED(float[THREADS / WARP], maxima);
    SHARED(double[THREADS / WARP], parts);
    SHARED(Whole, whole);
    float max = block_join(seen.max, maxima, Max());
    if (threadIdx.x == 0) whole.max = max;
    __syncthreads();
    max = float(whole.max);
    double sum = seen.sum, weighted = seen.weighted;
    if (seen.max == -INFINITY) {
        weighted = 0.0;
    } else {
        double d = double(seen.max - max) * double(scale), e = exp2(d);
        weighted = e == 0.0 ? 0.0 : e * (weighted + d * sum);
        sum *= e;
    }
    sum = block_join(sum, parts, Add());
    weighted = block_join(weighted, parts, Add());
    if (threadIdx.x == 0) {
        whole.sum = sum;
        whole.weighted = weighted;
    }
    __syncthreads();
    Whole joined = whole;
    __syncthreads();
    return joined;
}

// The softmax of a row, from all that was seen of it.
__device__ Softmax softmax_of(const Whole& whole, float temperature, float z, bool has_target) {
    Softmax softmax;
    softmax.max = float(whole.max);
    softmax.temperature = temperature;
    bool is_good = whole.sum > 0.0 && is_finite(softmax.max) && has_target;
    double log_sum = log(whole.sum);
    softmax.log_sum = is_good ? log_sum : NAN;
    softmax.entropy = is_good ? log_sum - LN_2 * whole.weighted / whole.sum : NAN;
    double d = (double(z) - double(softmax.max)) / double(temperature);
    softmax.log_prob = is_good ? d - log_sum : NAN;
    return softmax;
}

__device__ float temperature_of(const Args& args, int64_t token) {
    return args.temperatures ? args.temperatures[token] : args.temperature;
}

__device__ int64_t token_of(const Args& args, int64_t row) { return args.tokens ? args.tokens[row] : row; }

// Hands over a piece of a row, neighbouring threads taking neighbours: packs with their first place, then single values.
// Several loads of a thread are under way at once.
template <class T, class OfPack, class OfOne>
__device__ __forceinline__ void read_piece(const T* from, int64_t n, OfPack of_pack, OfOne of_one) {
    // As many as registers allow.
    constexpr unsigned BATCH = sizeof(T) == 4 ? 2 : 4;
    int64_t head = until_aligned(from);
    head = head < n ? head : n;
    int64_t n_packs = (n - head) / Pack<T>::N;
    auto packs = reinterpret_cast<const Pack<T>*>(from + head);
    for (int64_t i = threadIdx.x; i < n_packs; i += BATCH * THREADS) {
        Pack<T> batch[BATCH];
        UNROLL
        for (unsigned b = 0; b < BATCH; b++) {
            if (i + b * THREADS < n_packs) batch[b] = packs[i + b * THREADS];
        }
        UNROLL
        for (unsigned b = 0; b < BATCH; b++) {
            if (i + b * THREADS < n_packs) of_pack(head + (i + b * THREADS) * Pack<T>::N, batch[b]);
        }
    }
    int64_t tail = head + n_packs * Pack<T>::N;
    if (threadIdx.x < head) of_one(threadIdx.x);
    if (tail + threadIdx.x < n) of_one(tail + threadIdx.x);
}

template <class T>
__device__ void read_row(const Args& args) {
    int64_t row = blockIdx.x, token = token_of(args, row);
    bool is_first = threadIdx.x == 0;
    if (args.mask && !args.mask[token]) {
        if (is_first) {
            args.log_prob[token] = 0.0f;
            if (args.entropy) args.entropy[token] = 0.0f;
            if (args.softmax) args.softmax[token] = {0.0f, 1.0f, 0.0, 0.0, 0.0};
        }
        return;
    }
    auto from = static_cast<const T*>(args.logits) + row * args.n_columns;
    float temperature = temperature_of(args, token);
    float scale = LOG2_E / temperature;
    Seen seen;
    auto of_pack = [&](int64_t, const Pack<T>& pack) { seen.add(pack, scale); };
    read_piece(from, args.n_vocab, of_pack, [&](int64_t i) { seen.add_one(to_float(from[i]), scale); });
    Whole whole = join(seen, scale);
    if (!is_first) return;
    int64_t target = args.targets[token];
    bool has_target = target >= 0 && target < args.n_vocab;
    Softmax softmax = softmax_of(whole, temperature, has_target ? to_float(from[target]) : 0.0f, has_target);
    args.log_prob[token] = float(softmax.log_prob);
    if (args.entropy) args.entropy[token] = float(softmax.entropy);
    if (args.softmax) args.softmax[token] = softmax;
}

KERNEL(THREADS, logits_loss_read, Args) {
    if (args.dtype == F32) {
        read_row<float>(args);
    } else if (args.dtype == BF16) {
        read_row<bf16>(args);
    } else {
        read_row<f16>(args);
    }
}

// The gradient of a row as p (constant + slope d), d = (z - max) / (T ln 2); or one value for all columns.
struct Gradient {
    float max, scale, inverse_sum, constant, slope, of_target;
    bool is_constant;
    float value;

    __device__ __forceinline__ float by(float z) const {
        float d = (z - max) * scale, e = exp2_of(d);
        return e == 0.0f ? 0.0f : e * inverse_sum * fmaf(slope, d, constant);
    }
};

__device__ Gradient gradient_of(const Softmax& softmax, float by_log_prob, float by_entropy) {
    Gradient gradient;
    double g = by_log_prob, h = by_entropy, temperature = softmax.temperature;
    gradient.max = softmax.max;
    gradient.scale = LOG2_E / softmax.temperature;
    gradient.inverse_sum = float(exp(-softmax.log_sum));
    gradient.constant = float(-(g + h * (softmax.entropy - softmax.log_sum)) / temperature);
    gradient.slope = float(-h * LN_2 / temperature);
    // 1 - p without cancellation.
    double p = exp(softmax.log_prob);
    double of_entropy = p == 0.0 ? 0.0 : h * p * (softmax.log_prob + softmax.entropy);
    gradient.of_target = float((-g * expm1(softmax.log_prob) - of_entropy) / temperature);
    bool is_zero = by_log_prob == 0.0f && by_entropy == 0.0f;
    bool is_bad = !is_zero && (is_nan(by_log_prob) || !is_finite(float(softmax.log_prob)));
    gradient.is_constant = is_zero || is_bad;
    gradient.value = is_bad ? NAN : 0.0f;
    return gradient;
}

// Writes the gradient of columns start..end of a row; `from[0]` is the logit of column start.
template <class T>
__device__ void write(const T* from, T* to, int64_t start, int64_t end, int64_t n_vocab, int64_t target, const Gradient& gradient) {
    auto one = [&](int64_t i) {
        int64_t column = start + i;
        float value = column >= n_vocab ? 0.0f
                      : gradient.is_constant ? gradient.value
                      : column == target ? gradient.of_target
                                         : gradient.by(to_float(from[i]));
        to[i] = from_float<T>(value);
    };
    int64_t n = end - start;
    int64_t head = until_aligned(to);
    head = head < n ? head : n;
    if (until_aligned(from) != until_aligned(to)) head = n;
    int64_t n_packs = (n - head) / Pack<T>::N;
    for (int64_t p = threadIdx.x; p < n_packs; p += THREADS) {
        int64_t first = head + p * Pack<T>::N;
        auto pack = *reinterpret_cast<const Pack<T>*>(from + first);
        UNROLL
        for (unsigned i = 0; i < Pack<T>::N; i++) {
            int64_t column = start + first + i;
            float value = gradient.is_constant ? gradient.value : gradient.by(to_float(pack.at[i]));
            if (column == target && !gradient.is_constant) value = gradient.of_target;
            pack.at[i] = from_float<T>(column < n_vocab ? value : 0.0f);
        }
        *reinterpret_cast<Pack<T>*>(to + first) = pack;
    }
    for (int64_t i = threadIdx.x; i < head; i += THREADS) one(i);
    for (int64_t i = head + n_packs * Pack<T>::N + threadIdx.x; i < n; i += THREADS) one(i);
}

template <class T>
__device__ void write_part(const Args& args) {
    int64_t parts = (args.n_columns + PART - 1) / PART;
    int64_t row = blockIdx.x / parts, start = blockIdx.x % parts * PART;
    int64_t end = start + PART < args.n_columns ? start + PART : args.n_columns;
    int64_t token = token_of(args, row);
    SHARED(Gradient, gradient);
    if (threadIdx.x == 0) gradient = gradient_of(args.softmax[token], args.by_log_prob[token], args.by_entropy[token]);
    __syncthreads();
    int64_t at = row * args.n_columns + start;
    write(static_cast<const T*>(args.logits) + at, static_cast<T*>(args.grad) + at, start, end, args.n_vocab, args.targets[token], gradient);
}

KERNEL(THREADS, logits_loss_write, Args) {
    if (args.dtype == F32) {
        write_part<float>(args);
    } else if (args.dtype == BF16) {
        write_part<bf16>(args);
    } else {
        write_part<f16>(args);
    }
}

// The row of token i, for losses whose tokens need nothing of each other but the row's share.
__device__ policy_loss::Piece piece_of_token(const policy_loss::Args& policy, int64_t i) {
    policy_loss::Piece piece;
    if (!policy.offsets) {
        piece.row = i / policy.n_columns;
        piece.row_start = piece.row * policy.n_columns;
    } else {
        // The last row that starts at the token or before it; empty rows start where the next one does.
        int64_t low = 0, high = policy.n_rows;
        while (high - low > 1) {
            int64_t middle = low + (high - low) / 2;
            if (policy.offsets[middle] <= i) {
                low = middle;
            } else {
                high = middle;
            }
        }
        piece.row = low;
        piece.row_start = policy.offsets[low];
    }
    piece.start = i;
    piece.end = i + 1;
    return piece;
}

// The gradients by log-prob and entropy of the token, which the row's share and its own numbers give.
__device__ policy_loss::Added added_by(const Args& args, int64_t token, float log_prob, float entropy) {
    policy_loss::Piece piece = piece_of_token(args.policy, token);
    policy_loss::Token given = policy_loss::token_of(args.policy, piece, token, log_prob, entropy);
    return policy_loss::added_by(args.policy, piece, args.policy.rows[piece.row], token, given, false);
}

// Those gradients for the tokens of all rows of logits. A thread for each.
KERNEL(THREADS, logits_loss_by, Args) {
    int64_t row = int64_t(blockIdx.x) * THREADS + threadIdx.x;
    if (row >= args.n_rows) return;
    int64_t token = token_of(args, row);
    policy_loss::Added added = added_by(args, token, args.log_prob[token], args.entropy[token]);
    args.by_log_prob[token] = added.grad;
    args.by_entropy[token] = added.grad_entropy;
}

template <class T>
__device__ void resident_row(const Args& args) {
    DYNAMIC_SHARED(T, slice);
    SHARED(Whole, of_this);
    SHARED(float, z_of_target);
    unsigned n_blocks = cluster_size(), rank = cluster_rank();
    int64_t row = blockIdx.x / n_blocks;
    int64_t start = rank * args.slice;
    int64_t end = start + args.slice < args.n_columns ? start + args.slice : args.n_columns;
    end = end > start ? end : start;
    int64_t at = row * args.n_columns + start;
    auto from = static_cast<const T*>(args.logits) + at;
    auto to = static_cast<T*>(args.grad) + at;
    int64_t target = args.targets[row];
    bool is_read = args.mask[row];
    if (!is_read) {
        // The whole cluster is here: the mask is that of the row.
        Gradient zero = {};
        zero.is_constant = true;
        write(from, to, start, end, args.n_vocab, target, zero);
        if (rank == 0 && threadIdx.x == 0) {
            args.log_prob[row] = 0.0f;
            args.entropy[row] = 0.0f;
        }
        return;
    }
    float temperature = temperature_of(args, row), scale = LOG2_E / temperature;
    // The slice lies in shared memory as it lies in a pack: aligned where it is aligned in global memory.
    int64_t n = end < args.n_vocab ? end - start : args.n_vocab > start ? args.n_vocab - start : 0;
    int64_t head = until_aligned(from);
    T* here = slice + (head ? Pack<T>::N - head : 0);
    Seen seen;
    auto of_pack = [&](int64_t first, const Pack<T>& pack) {
        *reinterpret_cast<Pack<T>*>(here + first) = pack;
        seen.add(pack, scale);
    };
    auto of_one = [&](int64_t i) {
        here[i] = from[i];
        seen.add_one(to_float(from[i]), scale);
    };
    read_piece(from, n, of_pack, of_one);
    Whole joined = join(seen, scale);
    bool has_target = target >= 0 && target < args.n_vocab;
    if (threadIdx.x == 0) {
        of_this = joined;
        z_of_target = has_target && target >= start && target < start + n ? to_float(here[target - start]) : -INFINITY;
    }
    cluster_sync();
    SHARED(Gradient, gradient);
    if (threadIdx.x == 0) {
        // The same in every block: in the order of their ranks.
        Whole whole = {-INFINITY, 0.0, 0.0};
        float z = -INFINITY;
        for (unsigned other = 0; other < n_blocks; other++) {
            double max = of_block(&of_this, other).max;
            whole.max = max > whole.max ? max : whole.max;
            z = fmaxf(z, of_block(&z_of_target, other));
        }
        for (unsigned other = 0; other < n_blocks; other++) {
            Whole part = of_block(&of_this, other);
            double d = (part.max - whole.max) * double(scale), e = exp2(d);
            if (part.max == -INFINITY) {
                whole.sum += part.sum;
            } else {
                whole.sum += part.sum * e;
                whole.weighted += e == 0.0 ? 0.0 : e * (part.weighted + d * part.sum);
            }
        }
        Softmax softmax = softmax_of(whole, temperature, z, has_target);
        auto log_prob = float(softmax.log_prob), entropy = float(softmax.entropy);
        policy_loss::Added added = added_by(args, row, log_prob, entropy);
        gradient = gradient_of(softmax, added.grad, added.grad_entropy);
        if (rank == 0) {
            args.log_prob[row] = log_prob;
            args.entropy[row] = entropy;
        }
    }
    // No block leaves while another reads its shared memory, and every thread sees what thread 0 found.
    cluster_sync();
    write(here, to, start, end, args.n_vocab, target, gradient);
}

// One for each dtype, and two blocks to a multiprocessor: one reads while the other writes.
KERNEL_OF_BLOCKS(THREADS, 2, logits_loss_resident_f32, Args) { resident_row<float>(args); }
KERNEL_OF_BLOCKS(THREADS, 2, logits_loss_resident_bf16, Args) { resident_row<bf16>(args); }
KERNEL_OF_BLOCKS(THREADS, 2, logits_loss_resident_f16, Args) { resident_row<f16>(args); }

}  // namespace logits_loss
