// What a token of a policy loss adds and what its gradient is: for policy_loss.cu, and for kernels that have the log-prob
// at hand. src/reference/loss.rs is the specification; formulas in docs/losses.md.

#pragma once

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

// The token at `at`, whose log-prob and entropy are known.
__device__ Token token_of(const Args& args, const Piece& piece, int64_t at, float log_prob, float entropy) {
    Token token;
    token.log_prob = log_prob;
    token.entropy = entropy;
    token.old = args.old ? load(args.old, args.old_dtype, at) : log_prob;
    token.reference = args.reference ? load(args.reference, args.reference_dtype, at) : 0.0f;
    token.rollout = args.rollout ? load(args.rollout, args.rollout_dtype, at) : 0.0f;
    token.advantage = advantage_of(args, piece, at);
    token.is_finite = is_finite(token.log_prob) && is_finite(token.old) && is_finite(token.advantage) &&
                      is_finite(token.reference) && is_finite(token.entropy) &&
                      (is_finite(token.rollout) || is_nan(token.rollout));
    return token;
}

__device__ Token token_at(const Args& args, const Piece& piece, int64_t at) {
    float log_prob = load(args.log_prob, args.log_prob_dtype, at);
    return token_of(args, piece, at, log_prob, args.entropy ? load(args.entropy, args.entropy_dtype, at) : 0.0f);
}

__device__ bool weighs_by_row(const Args& args) { return args.correction != NONE && args.weight_of_row; }

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

// What a token adds, and its gradients times the upstream one.
struct Added {
    Term term;
    Estimate estimate;
    // As summed: NaN or 0 where the token is not finite.
    float value, grad, grad_entropy;
    float difference, own_log_ratio, ratio, rho;
    bool is_good, is_unscored, is_bound;
};

// `is_ratio_pass`: only the gradient that goes through the row's ratio is wanted.
__device__ Added added_by(const Args& args, const Piece& piece, const Row& row, int64_t at, const Token& token, bool is_ratio_pass) {
    Added added;
    added.difference = token.log_prob - token.old;
    added.own_log_ratio = hold(added.difference, -args.max_log_ratio, args.max_log_ratio);
    float own_ratio = expf(added.own_log_ratio);
    added.ratio = args.ratio == TOKEN ? own_ratio : expf(row.log_ratio);
    Term term = surrogate(args, added.ratio, token.log_prob, token.advantage);
    added.is_unscored = is_nan(token.rollout);
    added.is_bound = false;
    added.rho = 1.0f;
    if (args.rollout) {
        float own = hold(added.is_unscored ? 0.0f : token.old - token.rollout, -args.max_log_ratio, args.max_log_ratio);
        added.rho = expf(weighs_by_row(args) ? row.log_weight : own);
        float weight = correct(args, added.rho, added.is_bound);
        term.value *= weight;
        term.through *= weight;
        term.direct *= weight;
    }
    added.estimate = {0.0f, 0.0f};
    if (args.reference) {
        added.estimate = kl_of(args.kl, token.reference - token.log_prob, own_ratio);
        term.value = fmaf(args.beta, added.estimate.value, term.value);
        term.direct = fmaf(args.beta, added.estimate.grad, term.direct);
    }
    term.value = fmaf(-args.entropy_coef, token.entropy, term.value);
    float own_grad = is_ratio_pass ? term.through : args.ratio == SEQUENCE ? term.direct : term.through + term.direct;

    added.is_good = token.is_finite && is_finite(term.value) && is_finite(own_grad);
    float otherwise = args.poisons ? NAN : 0.0f;
    float scale = row.share * upstream_of(args, piece, at);
    added.value = added.is_good ? term.value : otherwise;
    added.grad = added.is_good ? fmaf(scale, own_grad, row.shared_grad) : otherwise;
    added.grad_entropy = added.is_good ? -scale * args.entropy_coef : otherwise;
    added.term = term;
    return added;
}

}  // namespace policy_loss
