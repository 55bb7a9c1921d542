// policy_loss: loss, gradient and metrics from log-probs and advantages.
//
//   share_i = w_i / denominator
//   loss    = sum_i share_i sum_t m (rho l(r, A) + beta KL - c H)        r = exp(logp - old), or that of the row
//   grad_t  = share_i u_t (rho dl/dlogp + beta dKL/dlogp)                u: gradient from above
//
// src/reference/loss.rs is the specification; formulas in docs/losses.md.
//
// Shapes: tokens as [n_rows, n_columns], or packed with n_rows + 1 offsets. A piece is 4096 tokens of a row.
// Launch: one block of 256 threads for each of n_rows * pieces_per_row pieces (count, ratio, terms); one block (rows, join).
// Neighbouring threads have neighbouring tokens. f32 arithmetic, at most 16 values to a thread in f32, then f64 in a fixed order.
// Moves, for each token: 4 B each of logp, old, advantage (dense), reference, rollout, entropy; 1 B of mask, twice; 4 B of each
// output. Prediction: dev/cuda.md.

#include "policy_loss.cuh"

namespace policy_loss {

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

// A thread's part of Sums, in its order: at most PIECE / THREADS values each.
struct Partial {
    float value = 0, through_ratio = 0, k1 = 0, k3 = 0, ratio = 0, kl = 0, entropy = 0, weight = 0, weight_squared = 0;
    float n_low = 0, n_high = 0, n_dual = 0, n_non_finite = 0, n_bound = 0, n_unscored = 0;
    float ratio_min = INFINITY, ratio_max = -INFINITY, weight_min = INFINITY, weight_max = -INFINITY;
};

__device__ void add_token(const Args& args, const Piece& piece, const Row& row, int64_t at, Partial& partial) {
    Token token = token_at(args, piece, at);
    Added added = added_by(args, piece, row, at, token, false);
    if (args.grad_log_prob) store(args.grad_log_prob, args.grad_log_prob_dtype, at, added.grad);
    if (args.grad_entropy) store(args.grad_entropy, args.grad_entropy_dtype, at, added.grad_entropy);
    if (args.token_loss) store(args.token_loss, args.token_loss_dtype, at, row.share * added.value);
    partial.value += added.value;
    if (!added.is_good) {
        partial.n_non_finite += 1.0f;
        return;
    }
    float ratio = added.ratio, rho = added.rho;
    partial.k1 -= added.difference;
    partial.k3 += k3_of(added.own_log_ratio);
    partial.ratio += ratio;
    partial.ratio_min = ratio < partial.ratio_min ? ratio : partial.ratio_min;
    partial.ratio_max = ratio > partial.ratio_max ? ratio : partial.ratio_max;
    partial.kl += added.estimate.value;
    partial.entropy += token.entropy;
    partial.n_low += added.term.is_low ? 1.0f : 0.0f;
    partial.n_high += added.term.is_high ? 1.0f : 0.0f;
    partial.n_dual += added.term.is_dual ? 1.0f : 0.0f;
    if (args.rollout) {
        partial.weight += rho;
        partial.weight_squared = fmaf(rho, rho, partial.weight_squared);
        partial.weight_min = rho < partial.weight_min ? rho : partial.weight_min;
        partial.weight_max = rho > partial.weight_max ? rho : partial.weight_max;
        partial.n_bound += added.is_bound ? 1.0f : 0.0f;
        partial.n_unscored += added.is_unscored ? 1.0f : 0.0f;
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
    float through_ratio = 0.0f;
    for (int64_t at = piece.start + threadIdx.x; at < piece.end; at += THREADS) {
        if (args.known[at]) through_ratio += added_by(args, piece, row, at, token_at(args, piece, at), true).grad;
    }
    SHARED(double[THREADS / WARP], parts);
    double sum = block_join(double(through_ratio), parts, Add());
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
            add_token(args, piece, row, at, partial);
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
