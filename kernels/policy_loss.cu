// policy_loss: loss, gradient and metrics from log-probs and advantages.
//
//   share_i = w_i / denominator
//   loss    = sum_i share_i sum_t m (rho l(r, A) + beta KL - c H)        r = exp(logp - old), or that of the row
//   grad_t  = share_i u_t (rho dl/dlogp + beta dKL/dlogp)                u: gradient from above
//
// src/reference/loss.rs is the specification; formulas in docs/method.md.
//
// Shapes: tokens as [n_rows, n_columns], or packed with n_rows + 1 offsets. A piece is 4096 tokens of a row.
// Launch: one block of 256 threads for each of n_rows * pieces_per_row pieces (count, ratio, terms); one block (rows, join).
// Neighbouring threads have neighbouring tokens. f32 arithmetic, at most 16 values to a thread in f32, then f64 in a fixed order.
// Moves, for each token: 4 B each of logp, old, advantage (dense), reference, rollout, entropy; 1 B of mask, twice; 4 B of each
// output. History and prediction: dev/policy_loss.md.

#include "common.cuh"

namespace policy_loss {

constexpr unsigned THREADS = 256;
constexpr int64_t PIECE = 4096;

// Field by field what src/backend/cuda/policy_loss.rs has; numbers of the enums too.
enum Surrogate : uint32_t { CLIP, CISPO, SAPO };
enum Ratio : uint32_t { TOKEN, SEQUENCE, SEQUENCE_TOKEN };
enum Reduction : uint32_t { TOKEN_MEAN, SEQ_MEAN_TOKEN_MEAN, SEQ_MEAN_TOKEN_SUM, SEQ_MEAN_TOKEN_SUM_NORM, TOKEN_SUM };
enum Kl : uint32_t { K1, K2, K3, K1_STRAIGHT_THROUGH, K3_STRAIGHT_THROUGH, K3_CORRECTED };
enum Correction : uint32_t { NONE, TRUNCATE, MASK };

struct Span {
    uint32_t start, end;
    float advantage;
};

struct Count {
    uint32_t n_tokens, n_known, n_finite, unused;
    double log_ratio, log_weight;
};

struct Row {
    uint32_t n_tokens, n_known, n_finite;
    // w_i / denominator.
    float share;
    float log_ratio, log_weight;
    // Gradient that each token has from the row's ratio; NaN makes every gradient of the row NaN.
    float shared_grad;
    uint32_t unused;
    double weight;
};

// Sums over a piece, then over all. Counts are exact in f64.
struct Sums {
    double value, through_ratio;
    double k1, k3, ratio, kl, entropy, weight, weight_squared;
    double n_low, n_high, n_dual, n_non_finite, n_bound, n_unscored;
    double ratio_min, ratio_max, weight_min, weight_max;
};

struct Totals {
    Sums sums;
    double numerator, denominator;
    uint64_t n_tokens, n_known, n_empty_rows;
};

struct Args {
    const void *log_prob, *old, *reference, *rollout, *entropy, *advantage;
    const float* episode;
    const Span* spans;
    const int64_t *span_offsets, *offsets;
    // Tokens that count, and those of them whose log-prob is known.
    const uint8_t *trained, *known;
    const float* upstream;
    void *grad_log_prob, *grad_entropy, *token_loss;
    Count* counts;
    Row* rows;
    Sums* pieces;
    double* row_values;
    Totals* totals;
    int64_t n_rows, n_columns, upstream_row_stride, upstream_token_stride;
    // 0: the count that the reduction names.
    double denominator;
    double length;
    uint32_t pieces_per_row;
    uint32_t log_prob_dtype, old_dtype, reference_dtype, rollout_dtype, entropy_dtype, advantage_dtype;
    uint32_t grad_log_prob_dtype, grad_entropy_dtype, token_loss_dtype;
    uint32_t surrogate, ratio, reduction, kl, correction;
    uint32_t weight_of_row, count_empty_rows, poisons;
    float upstream_value, least, most, dual, max_log_ratio, beta, entropy_coef, least_weight, most_weight;
    uint32_t unused;
};

constexpr float LARGEST_KL_EXPONENT = 20.0f;
// SAPO's gate is constant beyond this in f32.
constexpr float LARGEST_GATE = 80.0f;

struct Piece {
    int64_t row;
    // Positions in the arrays, and that of the row's first token.
    int64_t start, end, row_start;
};

__device__ Piece piece_of(const Args& args, int64_t block) {
    Piece piece;
    piece.row = block / args.pieces_per_row;
    int64_t row_end;
    if (args.offsets) {
        piece.row_start = args.offsets[piece.row];
        row_end = args.offsets[piece.row + 1];
    } else {
        piece.row_start = piece.row * args.n_columns;
        row_end = piece.row_start + args.n_columns;
    }
    piece.start = piece.row_start + block % args.pieces_per_row * PIECE;
    piece.end = piece.start + PIECE < row_end ? piece.start + PIECE : row_end;
    return piece;
}

__device__ __forceinline__ float hold(float x, float least, float most) {
    return x < least ? least : x > most ? most : x;
}

// What is given for a token.
struct Token {
    float log_prob, old, reference, rollout, entropy, advantage;
    bool is_finite;
};

__device__ float advantage_of(const Args& args, const Piece& piece, int64_t at) {
    if (args.advantage) return load(args.advantage, args.advantage_dtype, at);
    float advantage = args.episode[piece.row];
    if (!args.spans) return advantage;
    // The last span that starts at the token or before it.
    auto token = uint32_t(at - piece.row_start);
    int64_t low = args.span_offsets[piece.row], high = args.span_offsets[piece.row + 1];
    int64_t first = low;
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (args.spans[middle].start <= token) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    if (low > first && token < args.spans[low - 1].end) advantage += args.spans[low - 1].advantage;
    return advantage;
}

__device__ Token token_at(const Args& args, const Piece& piece, int64_t at) {
    Token token;
    token.log_prob = load(args.log_prob, args.log_prob_dtype, at);
    token.old = args.old ? load(args.old, args.old_dtype, at) : token.log_prob;
    token.reference = args.reference ? load(args.reference, args.reference_dtype, at) : 0.0f;
    token.rollout = args.rollout ? load(args.rollout, args.rollout_dtype, at) : 0.0f;
    token.entropy = args.entropy ? load(args.entropy, args.entropy_dtype, at) : 0.0f;
    token.advantage = advantage_of(args, piece, at);
    token.is_finite = is_finite(token.log_prob) && is_finite(token.old) && is_finite(token.advantage) &&
                      is_finite(token.reference) && is_finite(token.entropy) &&
                      (is_finite(token.rollout) || is_nan(token.rollout));
    return token;
}

__device__ bool weighs_by_row(const Args& args) { return args.correction != NONE && args.weight_of_row; }

KERNEL(THREADS, policy_loss_count, Args) {
    Piece piece = piece_of(args, blockIdx.x);
    bool needs_logs = args.ratio != TOKEN || weighs_by_row(args);
    uint32_t n_tokens = 0, n_known = 0, n_finite = 0;
    float log_ratio = 0.0f, log_weight = 0.0f;
    for (int64_t at = piece.start + threadIdx.x; at < piece.end; at += THREADS) {
        n_tokens += args.trained[at] != 0;
        if (!args.known[at]) continue;
        n_known++;
        if (!needs_logs) continue;
        Token token = token_at(args, piece, at);
        if (!token.is_finite) continue;
        n_finite++;
        log_ratio += token.log_prob - token.old;
        if (args.rollout && !is_nan(token.rollout)) log_weight += token.old - token.rollout;
    }
    SHARED(uint32_t[THREADS / WARP], whole);
    SHARED(double[THREADS / WARP], parts);
    Count count;
    count.n_tokens = block_join(n_tokens, whole, Add());
    count.n_known = block_join(n_known, whole, Add());
    count.n_finite = needs_logs ? block_join(n_finite, whole, Add()) : 0;
    count.log_ratio = needs_logs ? block_join(double(log_ratio), parts, Add()) : 0.0;
    count.log_weight = needs_logs ? block_join(double(log_weight), parts, Add()) : 0.0;
    count.unused = 0;
    if (threadIdx.x == 0) args.counts[blockIdx.x] = count;
}

__device__ double weight_of(const Args& args, uint32_t n_tokens) {
    if (n_tokens == 0) return 0.0;
    if (args.reduction == SEQ_MEAN_TOKEN_MEAN) return 1.0 / double(n_tokens);
    if (args.reduction == SEQ_MEAN_TOKEN_SUM_NORM) return 1.0 / args.length;
    return 1.0;
}

__device__ double denominator_of(const Args& args, uint64_t n_tokens, uint64_t n_rows) {
    if (args.denominator != 0.0) return args.denominator;
    if (args.reduction == TOKEN_MEAN) return double(n_tokens);
    if (args.reduction == TOKEN_SUM) return 1.0;
    return double(n_rows);
}

// One block: what the tokens of each row share.
KERNEL(THREADS, policy_loss_rows, Args) {
    uint64_t n_tokens = 0, n_known = 0, n_counted = 0, n_empty = 0;
    for (int64_t i = threadIdx.x; i < args.n_rows; i += THREADS) {
        Row row = {};
        double log_ratio = 0.0, log_weight = 0.0;
        for (uint32_t p = 0; p < args.pieces_per_row; p++) {
            Count count = args.counts[i * args.pieces_per_row + p];
            row.n_tokens += count.n_tokens;
            row.n_known += count.n_known;
            row.n_finite += count.n_finite;
            log_ratio += count.log_ratio;
            log_weight += count.log_weight;
        }
        float most = args.max_log_ratio;
        row.log_ratio = hold(float(log_ratio / double(row.n_finite > 0 ? row.n_finite : 1)), -most, most);
        row.log_weight = hold(float(log_weight), -most, most);
        row.weight = weight_of(args, row.n_tokens);
        bool is_poisoned = args.ratio != TOKEN && args.poisons && row.n_finite < row.n_known;
        row.shared_grad = is_poisoned ? NAN : 0.0f;
        args.rows[i] = row;
        n_tokens += row.n_tokens;
        n_known += row.n_known;
        n_empty += row.n_tokens == 0;
        n_counted += row.n_tokens > 0 || args.count_empty_rows;
    }
    SHARED(uint64_t[THREADS / WARP], parts);
    SHARED(double, denominator);
    n_tokens = block_join(n_tokens, parts, Add());
    n_known = block_join(n_known, parts, Add());
    n_counted = block_join(n_counted, parts, Add());
    n_empty = block_join(n_empty, parts, Add());
    if (threadIdx.x == 0) {
        denominator = denominator_of(args, n_tokens, n_counted);
        args.totals->denominator = denominator;
        args.totals->n_tokens = n_tokens;
        args.totals->n_known = n_known;
        args.totals->n_empty_rows = n_empty;
    }
    __syncthreads();
    for (int64_t i = threadIdx.x; i < args.n_rows; i += THREADS) {
        args.rows[i].share = denominator == 0.0 ? 0.0f : float(args.rows[i].weight / denominator);
    }
}

struct Term {
    float value, through, direct;
    bool is_low, is_high, is_dual;
};

__device__ Term surrogate(const Args& args, float r, float log_prob, float a) {
    Term term = {};
    if (args.surrogate == CLIP) {
        float plain = -r * a, held = -hold(r, args.least, args.most) * a;
        bool at_bound = plain < held;
        term.value = at_bound ? held : plain;
        float most = args.dual * -a;
        term.is_dual = a < 0.0f && most < term.value;
        if (term.is_dual) term.value = most;
        term.through = at_bound || term.is_dual ? 0.0f : plain;
        term.is_low = at_bound && !term.is_dual && a < 0.0f;
        term.is_high = at_bound && !term.is_dual && !(a < 0.0f);
    } else if (args.surrogate == CISPO) {
        term.direct = -hold(r, args.least, args.most) * a;
        term.value = term.direct * log_prob;
        term.is_low = r < args.least;
        term.is_high = args.most < r;
    } else {
        float tau = a > 0.0f ? args.least : args.most;
        float e = expf(-hold(tau * (r - 1.0f), -LARGEST_GATE, LARGEST_GATE));
        float gate = 1.0f / (1.0f + e), four_a = -4.0f * a;
        term.value = four_a / tau * gate;
        // gate (1 - gate) without the cancellation of 1 - gate.
        term.through = four_a * (gate * (e * gate)) * r;
    }
    return term;
}

// exp(x) - 1 - x: from the series where x is small, for there the difference cancels.
__device__ float k3_of(float x) {
    if (fabsf(x) > 0.5f) return expm1f(x) - x;
    float series = 1.0f / 40320.0f;
    series = fmaf(series, x, 1.0f / 5040.0f);
    series = fmaf(series, x, 1.0f / 720.0f);
    series = fmaf(series, x, 1.0f / 120.0f);
    series = fmaf(series, x, 1.0f / 24.0f);
    series = fmaf(series, x, 1.0f / 6.0f);
    series = fmaf(series, x, 0.5f);
    return series * x * x;
}

struct Estimate {
    float value, grad;
};

__device__ Estimate kl_of(uint32_t kl, float d, float ratio) {
    float held = d < LARGEST_KL_EXPONENT ? d : LARGEST_KL_EXPONENT;
    switch (kl) {
        case K1: return {-d, 1.0f};
        case K2: return {0.5f * d * d, -d};
        case K3: return {k3_of(held), -(held + k3_of(held))};
        case K1_STRAIGHT_THROUGH: return {-d, -d};
        case K3_STRAIGHT_THROUGH: return {k3_of(held), -d};
        default: return {ratio * k3_of(held), -ratio * held};
    }
}

// What multiplies the surrogate, and whether that is not the importance ratio itself.
__device__ float correct(const Args& args, float rho, bool& is_bound) {
    is_bound = args.correction != NONE && (rho > args.most_weight || (args.correction == MASK && rho < args.least_weight));
    if (args.correction == NONE) return 1.0f;
    if (!is_bound) return rho;
    return args.correction == MASK ? 0.0f : args.most_weight;
}

__device__ float upstream_of(const Args& args, const Piece& piece, int64_t at) {
    if (!args.upstream) return args.upstream_value;
    int64_t from = args.offsets ? at * args.upstream_token_stride
                                : piece.row * args.upstream_row_stride + (at - piece.row_start) * args.upstream_token_stride;
    return args.upstream[from];
}

// A thread's part of Sums, in its order: at most PIECE / THREADS values each.
struct Partial {
    float value = 0, through_ratio = 0, k1 = 0, k3 = 0, ratio = 0, kl = 0, entropy = 0, weight = 0, weight_squared = 0;
    float n_low = 0, n_high = 0, n_dual = 0, n_non_finite = 0, n_bound = 0, n_unscored = 0;
    float ratio_min = INFINITY, ratio_max = -INFINITY, weight_min = INFINITY, weight_max = -INFINITY;
};

// One token. `is_ratio_pass`: only the gradient that goes through the row's ratio is wanted.
__device__ void add_token(const Args& args, const Piece& piece, const Row& row, int64_t at, bool is_ratio_pass, Partial& partial) {
    Token token = token_at(args, piece, at);
    float difference = token.log_prob - token.old;
    float own_log_ratio = hold(difference, -args.max_log_ratio, args.max_log_ratio);
    float own_ratio = expf(own_log_ratio);
    float ratio = args.ratio == TOKEN ? own_ratio : expf(row.log_ratio);
    Term term = surrogate(args, ratio, token.log_prob, token.advantage);
    bool is_unscored = is_nan(token.rollout), is_bound = false;
    float rho = 1.0f;
    if (args.rollout) {
        float own = hold(is_unscored ? 0.0f : token.old - token.rollout, -args.max_log_ratio, args.max_log_ratio);
        rho = expf(weighs_by_row(args) ? row.log_weight : own);
        float weight = correct(args, rho, is_bound);
        term.value *= weight;
        term.through *= weight;
        term.direct *= weight;
    }
    Estimate estimate = {0.0f, 0.0f};
    if (args.reference) {
        estimate = kl_of(args.kl, token.reference - token.log_prob, own_ratio);
        term.value = fmaf(args.beta, estimate.value, term.value);
        term.direct = fmaf(args.beta, estimate.grad, term.direct);
    }
    term.value = fmaf(-args.entropy_coef, token.entropy, term.value);
    float own_grad = is_ratio_pass ? term.through : args.ratio == SEQUENCE ? term.direct : term.through + term.direct;

    bool is_good = token.is_finite && is_finite(term.value) && is_finite(own_grad);
    float otherwise = args.poisons ? NAN : 0.0f;
    float scale = row.share * upstream_of(args, piece, at);
    float value = is_good ? term.value : otherwise;
    float grad = is_good ? fmaf(scale, own_grad, row.shared_grad) : otherwise;
    if (is_ratio_pass) {
        partial.through_ratio += grad;
        return;
    }
    if (args.grad_log_prob) store(args.grad_log_prob, args.grad_log_prob_dtype, at, grad);
    if (args.grad_entropy) {
        store(args.grad_entropy, args.grad_entropy_dtype, at, is_good ? -scale * args.entropy_coef : otherwise);
    }
    if (args.token_loss) store(args.token_loss, args.token_loss_dtype, at, row.share * value);
    partial.value += value;
    if (!is_good) {
        partial.n_non_finite += 1.0f;
        return;
    }
    partial.k1 -= difference;
    partial.k3 += k3_of(own_log_ratio);
    partial.ratio += ratio;
    partial.ratio_min = ratio < partial.ratio_min ? ratio : partial.ratio_min;
    partial.ratio_max = ratio > partial.ratio_max ? ratio : partial.ratio_max;
    partial.kl += estimate.value;
    partial.entropy += token.entropy;
    partial.n_low += term.is_low ? 1.0f : 0.0f;
    partial.n_high += term.is_high ? 1.0f : 0.0f;
    partial.n_dual += term.is_dual ? 1.0f : 0.0f;
    if (args.rollout) {
        partial.weight += rho;
        partial.weight_squared = fmaf(rho, rho, partial.weight_squared);
        partial.weight_min = rho < partial.weight_min ? rho : partial.weight_min;
        partial.weight_max = rho > partial.weight_max ? rho : partial.weight_max;
        partial.n_bound += is_bound ? 1.0f : 0.0f;
        partial.n_unscored += is_unscored ? 1.0f : 0.0f;
    }
}

constexpr unsigned N_FIELDS = sizeof(Sums) / sizeof(double);
static_assert(sizeof(Partial) == N_FIELDS * sizeof(float), "Partial and Sums have the same fields");

// How two values of a field of Sums become one: the last four are bounds, least and most in turn.
struct Join {
    bool is_sum, is_least;
    __device__ explicit Join(unsigned field) : is_sum(field < N_FIELDS - 4), is_least((field - (N_FIELDS - 4)) % 2 == 0) {}
    __device__ double nothing() const { return is_sum ? 0.0 : is_least ? INFINITY : -INFINITY; }
    __device__ double operator()(double a, double b) const {
        if (is_sum) return a + b;
        return is_least == (b < a) ? b : a;
    }
};

// Sequence-level ratios: the sum over a piece of the gradients by the row's log-ratio.
KERNEL(THREADS, policy_loss_ratio, Args) {
    Piece piece = piece_of(args, blockIdx.x);
    Row row = args.rows[piece.row];
    Partial partial;
    for (int64_t at = piece.start + threadIdx.x; at < piece.end; at += THREADS) {
        if (args.known[at]) add_token(args, piece, row, at, true, partial);
    }
    SHARED(double[THREADS / WARP], parts);
    double sum = block_join(double(partial.through_ratio), parts, Add());
    if (threadIdx.x == 0) args.pieces[blockIdx.x].through_ratio = sum;
}

// Gives each row the mean of those gradients. A thread for each row.
KERNEL(THREADS, policy_loss_share_ratio, Args) {
    int64_t i = int64_t(blockIdx.x) * THREADS + threadIdx.x;
    if (i >= args.n_rows) return;
    double sum = 0.0;
    for (uint32_t p = 0; p < args.pieces_per_row; p++) sum += args.pieces[i * args.pieces_per_row + p].through_ratio;
    Row& row = args.rows[i];
    row.shared_grad += float(sum / double(row.n_finite > 0 ? row.n_finite : 1));
}

KERNEL(THREADS, policy_loss_terms, Args) {
    Piece piece = piece_of(args, blockIdx.x);
    Row row = args.rows[piece.row];
    Partial partial;
    for (int64_t at = piece.start + threadIdx.x; at < piece.end; at += THREADS) {
        if (args.known[at]) {
            add_token(args, piece, row, at, false, partial);
        } else {
            if (args.grad_log_prob) store(args.grad_log_prob, args.grad_log_prob_dtype, at, 0.0f);
            if (args.grad_entropy) store(args.grad_entropy, args.grad_entropy_dtype, at, 0.0f);
            if (args.token_loss) store(args.token_loss, args.token_loss_dtype, at, 0.0f);
        }
    }
    // A warp for each field.
    SHARED(float[N_FIELDS][THREADS], parts);
    const float* fields = reinterpret_cast<const float*>(&partial);
    UNROLL
    for (unsigned field = 0; field < N_FIELDS; field++) parts[field][threadIdx.x] = fields[field];
    __syncthreads();
    for (unsigned field = threadIdx.x / WARP; field < N_FIELDS; field += THREADS / WARP) {
        Join join(field);
        double joined = join.nothing();
        for (unsigned i = threadIdx.x % WARP; i < THREADS; i += WARP) joined = join(joined, double(parts[field][i]));
        joined = warp_join(joined, join);
        if (threadIdx.x % WARP == 0) reinterpret_cast<double*>(&args.pieces[blockIdx.x])[field] = joined;
    }
}

// One block: rows from their pieces, and everything from the rows, in order whatever the number of threads.
KERNEL(THREADS, policy_loss_join, Args) {
    for (int64_t i = threadIdx.x; i < args.n_rows; i += THREADS) {
        double value = 0.0;
        for (uint32_t p = 0; p < args.pieces_per_row; p++) value += args.pieces[i * args.pieces_per_row + p].value;
        args.row_values[i] = value * args.rows[i].weight;
    }
    int64_t n_pieces = args.n_rows * args.pieces_per_row;
    // A warp for each field.
    for (unsigned field = threadIdx.x / WARP; field < N_FIELDS; field += THREADS / WARP) {
        Join join(field);
        double joined = join.nothing();
        for (int64_t p = threadIdx.x % WARP; p < n_pieces; p += WARP) {
            joined = join(joined, reinterpret_cast<const double*>(&args.pieces[p])[field]);
        }
        joined = warp_join(joined, join);
        if (threadIdx.x % WARP == 0) reinterpret_cast<double*>(&args.totals->sums)[field] = joined;
    }
    __syncthreads();
    SHARED(double[THREADS / WARP], parts);
    double numerator = 0.0;
    for (int64_t i = threadIdx.x; i < args.n_rows; i += THREADS) numerator += args.row_values[i];
    numerator = block_join(numerator, parts, Add());
    if (threadIdx.x == 0) args.totals->numerator = numerator;
}

}  // namespace policy_loss
