// token_advantage: group-relative advantages of segments, and the owner of every token.
//
//   d = x - mean, mean = sum w x / W; or d W / (W - w); or d / (sqrt(sum w d^2 / (W - ddof)) + eps)
//
// src/reference/advantage.rs is the specification. Sums run first member to last in f64, as on the host: equal bit for bit.
//
// Launch: segments, a thread for each segment; owners, a thread for each token. Blocks of 128 threads.
// Moves: 12 B for each member, 2 to 3 times; 8 B for each token and 24 B for each piece it meets. Prediction: dev/cuda.md.

#include "common.cuh"

namespace token_advantage {

constexpr unsigned THREADS = 128;

struct Counts {
    uint32_t n_groups, n_singletons, n_zero_spread, unused;
    uint64_t n_members, n_unscored, n_not_finite;
};

struct SegmentArgs {
    // NaN for a value that is not there.
    const double* values;
    // Absent for 1 each.
    const uint32_t* weights;
    const uint64_t* offsets;
    float* advantages;
    Counts* counts;
    uint64_t n_segments;
    double eps, ddof;
    uint32_t divides, leaves_one_out;
};

__device__ bool is_finite(double x) { return (bits_of(x) >> 52 & 0x7ff) != 0x7ff; }

KERNEL(THREADS, token_advantage_segments, SegmentArgs) {
    uint64_t segment = uint64_t(blockIdx.x) * THREADS + threadIdx.x;
    if (segment >= args.n_segments) return;
    uint64_t from = args.offsets[segment], to = args.offsets[segment + 1];
    auto weight = [&](uint64_t i) { return args.weights ? double(args.weights[i]) : 1.0; };
    auto is_scored = [&](uint64_t i) { return is_finite(args.values[i]) && weight(i) > 0.0; };
    uint64_t n = 0;
    double total = 0.0, sum = 0.0, least = INFINITY, most = -INFINITY;
    for (uint64_t i = from; i < to; i++) {
        args.advantages[i] = 0.0f;
        if (!is_scored(i)) continue;
        double x = args.values[i];
        n++;
        total += weight(i);
        sum += weight(i) * x;
        least = x < least ? x : least;
        most = x > most ? x : most;
    }
    if (to == from) return;
    atomicAdd(&args.counts->n_groups, 1u);
    atomicAdd(&args.counts->n_members, to - from);
    if (n < to - from) atomicAdd(&args.counts->n_unscored, to - from - n);
    if (n == 0) return;
    if (n == 1 || (args.divides && total <= args.ddof)) {
        atomicAdd(&args.counts->n_singletons, 1u);
        return;
    }
    if (least == most) {
        atomicAdd(&args.counts->n_zero_spread, 1u);
        return;
    }
    double mean = sum / total, scale = 1.0;
    if (args.divides) {
        double squares = 0.0;
        for (uint64_t i = from; i < to; i++) {
            if (!is_scored(i)) continue;
            double d = args.values[i] - mean;
            squares += weight(i) * (d * d);
        }
        scale = sqrt(squares / (total - args.ddof)) + args.eps;
    }
    uint64_t n_not_finite = 0;
    for (uint64_t i = from; i < to; i++) {
        if (!is_scored(i)) continue;
        double advantage = args.values[i] - mean;
        if (args.leaves_one_out) advantage *= total / (total - weight(i));
        if (args.divides) advantage /= scale;
        auto narrow = float(advantage);
        // Over a spread beyond f64 everything would be 0.
        if (::is_finite(narrow) && is_finite(scale)) {
            args.advantages[i] = narrow;
        } else {
            n_not_finite++;
        }
    }
    if (n_not_finite > 0) atomicAdd(&args.counts->n_not_finite, n_not_finite);
}

struct Piece {
    uint64_t start, end;
    uint32_t member, unused;
};

struct OwnerArgs {
    const uint32_t* byte_ends;
    const Piece* pieces;
    uint32_t* owners;
    uint64_t n_tokens, n_pieces;
};

constexpr uint32_t NONE = 0xffffffffu;

KERNEL(THREADS, token_advantage_owners, OwnerArgs) {
    uint64_t token = uint64_t(blockIdx.x) * THREADS + threadIdx.x;
    if (token >= args.n_tokens) return;
    uint64_t start = token > 0 ? args.byte_ends[token - 1] : 0, end = args.byte_ends[token];
    // The first piece that ends after the token begins.
    uint64_t low = 0, high = args.n_pieces;
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        if (args.pieces[middle].end <= start) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    uint64_t last = low;
    while (last < args.n_pieces && args.pieces[last].start < end) last++;
    uint32_t owner = NONE;
    uint64_t most = 0;
    for (uint64_t i = low; i < last && start < end; i++) {
        uint32_t member = args.pieces[i].member;
        uint64_t bytes = 0;
        // Bytes of the member in this token, counted where it comes first.
        bool is_first = true;
        for (uint64_t j = low; j < last; j++) {
            const Piece& piece = args.pieces[j];
            if (piece.member != member) continue;
            is_first &= j >= i;
            bytes += (piece.end < end ? piece.end : end) - (piece.start > start ? piece.start : start);
        }
        if (is_first && (bytes > most || (bytes == most && member < owner))) {
            owner = member;
            most = bytes;
        }
    }
    args.owners[token] = owner;
}

}  // namespace token_advantage
