// anchor_gain: greedy facility location, one pick a round, everything on the device.
//
//   gain(c) = sum over units u of c of max(0, w(c, u) - best(u))        best(u) = max of w over the picks so far
//
// Candidates cover ranges of units with one score each, or edges with a weight each. The sums have the order of the host's, bit for
// bit: of ranges, the units of each, then the ranges; of edges, parts of 64, in a part edge i to sum i mod 8, these pairwise, then
// the parts. src/reference/anchors.rs is the specification.
//
// Launch, for each round: gains, a warp for each candidate (8 to a block); pick, one block; cover, 64 blocks of 256 threads.
// Nothing comes back to the host between rounds: a round after the last pick does nothing.
// Moves, for each round: 8 B for each unit of each candidate, 12 B more for each edge. Prediction: dev/cuda.md.

#include "common.cuh"

namespace anchor_gain {

constexpr unsigned THREADS = 256;
constexpr unsigned WARPS = THREADS / WARP;
constexpr unsigned PART = 64;
constexpr unsigned SUMS = 8;
constexpr unsigned COVER_BLOCKS = 64;

struct Range {
    uint32_t start, end;
};

// Of a block, then of a round. The candidate of the largest gain, the lowest among equals.
struct Pick {
    double gain;
    uint32_t candidate;
    // Units that had no cover before, as far as ranges are concerned.
    uint32_t n_new;
};

struct Args {
    // Of candidate c: ranges, or edges, offsets[c]..offsets[c + 1].
    const uint64_t* offsets;
    // One of the two.
    const Range* ranges;
    const uint32_t* units;
    // Of candidates for ranges, of edges for edges.
    const double* weights;
    // Weights are not negative, so their order is that of their bits.
    uint64_t* best;
    Pick *of_blocks, *picks;
    uint32_t n_candidates, n_blocks, round, unused;
};

__device__ double value_of(uint64_t bits) {
#if defined(HUNKWISE_HOST)
    return __builtin_bit_cast(double, bits);
#else
    return __longlong_as_double(int64_t(bits));
#endif
}

__device__ __forceinline__ double rise(const Args& args, uint64_t unit, double weight) {
    double rise = weight - value_of(args.best[unit]);
    return rise > 0.0 ? rise : 0.0;
}

// All lanes of a warp have the result.
__device__ double gain_of_ranges(const Args& args, uint32_t candidate) {
    unsigned lane = threadIdx.x % WARP;
    double score = args.weights[candidate], gain = 0.0;
    uint64_t end = args.offsets[candidate + 1];
    for (uint64_t first = args.offsets[candidate]; first < end; first += WARP) {
        double part = 0.0;
        if (first + lane < end) {
            Range range = args.ranges[first + lane];
            for (uint64_t unit = range.start; unit < range.end; unit++) part += rise(args, unit, score);
        }
        for (unsigned i = 0; i < WARP; i++) gain += __shfl_sync(ALL_LANES, part, int(i));
    }
    return gain;
}

__device__ double gain_of_edges(const Args& args, uint32_t candidate) {
    constexpr unsigned PARTS = WARP / SUMS;
    unsigned lane = threadIdx.x % WARP, part = lane / SUMS, i = lane % SUMS;
    double gain = 0.0;
    uint64_t end = args.offsets[candidate + 1];
    for (uint64_t first = args.offsets[candidate]; first < end; first += PARTS * PART) {
        uint64_t from = first + part * PART, until = from + PART < end ? from + PART : end;
        double sum = 0.0;
        for (uint64_t edge = from + i; edge < until; edge += SUMS) sum += rise(args, args.units[edge], args.weights[edge]);
        for (unsigned step = SUMS / 2; step > 0; step /= 2) sum += __shfl_down_sync(ALL_LANES, sum, step);
        for (unsigned p = 0; p < PARTS; p++) gain += __shfl_sync(ALL_LANES, sum, int(p * SUMS));
    }
    return gain;
}

__device__ bool leads(const Pick& a, const Pick& b) {
    return a.gain > b.gain || (a.gain == b.gain && a.candidate < b.candidate);
}

__device__ bool is_over(const Args& args) { return args.round > 0 && args.picks[args.round - 1].gain == 0.0; }

KERNEL(THREADS, anchor_gain_gains, Args) {
    SHARED(Pick[WARPS], of_warps);
    if (is_over(args)) return;
    unsigned warp = threadIdx.x / WARP;
    uint32_t candidate = blockIdx.x * WARPS + warp;
    Pick pick = {0.0, 0xffffffffu, 0};
    if (candidate < args.n_candidates) {
        pick.gain = args.ranges ? gain_of_ranges(args, candidate) : gain_of_edges(args, candidate);
        pick.candidate = candidate;
    }
    if (threadIdx.x % WARP == 0) of_warps[warp] = pick;
    __syncthreads();
    if (threadIdx.x == 0) {
        for (unsigned i = 1; i < WARPS; i++) pick = leads(of_warps[i], pick) ? of_warps[i] : pick;
        args.of_blocks[blockIdx.x] = pick;
    }
}

KERNEL(THREADS, anchor_gain_pick, Args) {
    SHARED(Pick[THREADS], of_threads);
    Pick pick = {0.0, 0xffffffffu, 0};
    if (!is_over(args)) {
        for (uint32_t i = threadIdx.x; i < args.n_blocks; i += THREADS) {
            pick = leads(args.of_blocks[i], pick) ? args.of_blocks[i] : pick;
        }
    }
    of_threads[threadIdx.x] = pick;
    __syncthreads();
    if (threadIdx.x != 0) return;
    for (unsigned i = 1; i < THREADS; i++) pick = leads(of_threads[i], pick) ? of_threads[i] : pick;
    pick.n_new = 0;
    args.picks[args.round] = pick;
}

KERNEL(THREADS, anchor_gain_cover, Args) {
    Pick& pick = args.picks[args.round];
    if (pick.gain == 0.0) return;
    uint64_t first = args.offsets[pick.candidate], end = args.offsets[pick.candidate + 1];
    if (args.ranges) {
        double score = args.weights[pick.candidate];
        uint32_t n_new = 0;
        // A block for each range, a thread for each unit.
        for (uint64_t i = first + blockIdx.x; i < end; i += COVER_BLOCKS) {
            Range range = args.ranges[i];
            for (uint64_t unit = uint64_t(range.start) + threadIdx.x; unit < range.end; unit += THREADS) {
                double covered = value_of(args.best[unit]);
                n_new += covered == 0.0 && score > 0.0;
                if (score > covered) args.best[unit] = bits_of(score);
            }
        }
        if (n_new > 0) atomicAdd(&pick.n_new, n_new);
        return;
    }
    for (uint64_t i = first + blockIdx.x * THREADS + threadIdx.x; i < end; i += COVER_BLOCKS * THREADS) {
        atomicMax(&args.best[args.units[i]], bits_of(args.weights[i]));
    }
}

}  // namespace anchor_gain
