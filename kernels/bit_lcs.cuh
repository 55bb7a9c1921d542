// Longest common subsequences by bit vectors (Hyyro 2004), a text in each thread and one pattern for the block: for
// window_similarity.cu and pair_similarity.cu.

#pragma once

#include "common.cuh"

namespace bit_lcs {

constexpr unsigned THREADS = 128;
// Longer patterns take strips of this size; what a strip carries over to the next is kept for each text token.
constexpr unsigned STRIP_WORDS = 16;
constexpr unsigned STRIP_TOKENS = 32 * STRIP_WORDS;

// Where the masks of a pattern's tokens are: open addressing, twice as many places as tokens.
template <unsigned WORDS>
struct Masks {
    static constexpr unsigned TOKENS = 32 * WORDS;
    static constexpr unsigned PLACES = 2 * TOKENS;
    static constexpr uint32_t EMPTY = 0xffffffffu;
    uint32_t symbols[PLACES];
    // The masks of the place: that of the token that came first to it.
    uint16_t at[PLACES];
    // The last one is of zeros.
    uint32_t masks[TOKENS + 1][WORDS];

    // All threads of the block.
    __device__ void build(const uint32_t* tokens, uint32_t n) {
        for (unsigned i = threadIdx.x; i < PLACES; i += THREADS) symbols[i] = EMPTY;
        for (unsigned i = threadIdx.x; i < (TOKENS + 1) * WORDS; i += THREADS) (&masks[0][0])[i] = 0;
        __syncthreads();
        for (unsigned i = threadIdx.x; i < n; i += THREADS) {
            unsigned place = tokens[i] % PLACES;
            for (;; place = (place + 1) % PLACES) {
                uint32_t there = atomicCAS(&symbols[place], EMPTY, tokens[i]);
                if (there == EMPTY) at[place] = uint16_t(i);
                if (there == EMPTY || there == tokens[i]) break;
            }
        }
        __syncthreads();
        for (unsigned i = threadIdx.x; i < n; i += THREADS) atomicOr(&masks[find(tokens[i])][i / 32], 1u << i % 32);
        __syncthreads();
    }
    __device__ __forceinline__ unsigned find(uint32_t symbol) const {
        for (unsigned place = symbol % PLACES;; place = (place + 1) % PLACES) {
            if (symbols[place] == symbol) return at[place];
            if (symbols[place] == EMPTY) return TOKENS;
        }
    }
};

// One step of the bit vector: zeros in the first m bits are the LCS of the pattern's first m tokens with the text so far.
template <unsigned WORDS>
__device__ __forceinline__ uint32_t step(uint32_t (&v)[WORDS], const uint32_t* mask, uint32_t carry) {
    UNROLL
    for (unsigned w = 0; w < WORDS; w++) {
        uint32_t u = v[w] & mask[w];
        uint64_t sum = uint64_t(v[w]) + u + carry;
        carry = uint32_t(sum >> 32);
        v[w] = uint32_t(sum) | (v[w] & ~mask[w]);
    }
    return carry;
}

}  // namespace bit_lcs
