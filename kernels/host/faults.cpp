// A kernel with faults to choose from: tests of kernels/host itself (src/backend/cuda/emulated.rs).

#include "../common.cuh"

namespace faults {

enum Fault : uint32_t { NO_FAULT, NO_BARRIER, PAST_SHARED, PAST_GLOBAL, LEAVES_EARLY, WRONG_MASK, APART };

struct Args {
    const uint32_t* from;
    uint32_t* to;
    uint32_t fault, unused;
};

// to[b] = sum of the numbers of block b.
KERNEL(256, faults, Args) {
    SHARED(uint32_t[256], parts);
    unsigned i = threadIdx.x;
    parts[i + (args.fault == PAST_SHARED)] = args.from[blockIdx.x * blockDim.x + i];
    if (args.fault == LEAVES_EARLY && i == 255) return;
    if (args.fault == WRONG_MASK) __syncwarp(1);
    if (args.fault == APART && i == 7) __ballot_sync(ALL_LANES, 1);
    if (args.fault == APART && i != 7) __syncwarp();
    for (unsigned step = blockDim.x / 2; step > 0; step /= 2) {
        if (args.fault != NO_BARRIER) __syncthreads();
        if (i < step) parts[i] += parts[i + step];
    }
    if (i == 0) args.to[blockIdx.x] = parts[0];
    if (i == 1 && args.fault == PAST_GLOBAL) args.to[4] = 0;
}

}  // namespace faults
