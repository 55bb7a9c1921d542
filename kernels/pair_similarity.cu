// pair_similarity: which sequences of a list match, over all pairs.
//
//   sim(a, b) = 2 LCS(a, b) / (|a| + |b|) >= eta
//
// Items stand in the order of their lengths, so the partners of a pattern that can match by length stand side by side after it.
// src/reference/similarity.rs is the specification.
//
// Launch: one block of 128 threads for each pattern and 128 texts: the pattern's match masks in shared memory, a text in each
// thread, the bit vector in registers (2 to 16 words of 32 tokens). Longer patterns take strips of 512 tokens.
// Operations: for each token of a text 5 to 6 a word. Integers only. Prediction: dev/cuda.md.

#include "bit_lcs.cuh"

namespace pair_similarity {

using namespace bit_lcs;

struct Pair {
    uint32_t a, b, lcs;
};

struct Args {
    const uint32_t* tokens;
    // By length: item i has the tokens offsets[i]..offsets[i + 1].
    const uint64_t* offsets;
    // The least LCS of a match, by the sum of the lengths; the most tokens that can match, by the tokens.
    const uint32_t *least, *longest;
    Pair* pairs;
    uint64_t* n_pairs;
    uint64_t capacity;
    // Of each text, for patterns in strips: a bit for each of its tokens; zeros so far.
    uint32_t *carries, *zeros;
    uint32_t carry_words, first_pattern, n_patterns, n_items;
    // Blocks of each pattern.
    uint32_t blocks_of_pattern, unused;
};

template <unsigned WORDS, bool IN_STRIPS>
__device__ void find_pairs(const Args& args) {
    DYNAMIC_SHARED(Masks<WORDS>, masks);
    uint32_t pattern = args.first_pattern + blockIdx.x / args.blocks_of_pattern;
    uint64_t text = uint64_t(pattern) + 1 + blockIdx.x % args.blocks_of_pattern * THREADS + threadIdx.x;
    uint64_t first_token = args.offsets[pattern];
    auto m = uint32_t(args.offsets[pattern + 1] - first_token);
    uint32_t n = text < args.n_items ? uint32_t(args.offsets[text + 1] - args.offsets[text]) : 0;
    bool is_wanted = text < args.n_items && n <= args.longest[m];
    // The same for all threads of the block.
    if (!__syncthreads_or(is_wanted)) return;

    const uint32_t* tokens = args.tokens + (is_wanted ? args.offsets[text] : 0);
    uint32_t n_strips = IN_STRIPS ? (m + STRIP_TOKENS - 1) / STRIP_TOKENS : 1;
    for (uint32_t strip = 0; strip < n_strips; strip++) {
        uint32_t from = strip * STRIP_TOKENS;
        uint32_t n_here = IN_STRIPS && m - from > STRIP_TOKENS ? STRIP_TOKENS : m - from;
        __syncthreads();
        masks->build(args.tokens + first_token + from, n_here);
        if (!is_wanted) continue;

        uint32_t v[WORDS];
        UNROLL
        for (unsigned w = 0; w < WORDS; w++) v[w] = 0xffffffffu;
        uint32_t carried = 0, carry_out = 0;
        uint32_t* carries = IN_STRIPS ? args.carries + text * args.carry_words : nullptr;
        for (uint32_t i = 0; i < n; i++) {
            if (IN_STRIPS && i % 32 == 0) carried = strip > 0 ? carries[i / 32] : 0;
            const uint32_t* mask = masks->masks[masks->find(tokens[i])];
            uint32_t carry = step<WORDS>(v, mask, IN_STRIPS ? carried >> i % 32 & 1 : 0);
            if (IN_STRIPS) {
                carry_out |= carry << i % 32;
                if (i % 32 == 31) {
                    carries[i / 32] = carry_out;
                    carry_out = 0;
                }
            }
        }
        if (IN_STRIPS && n % 32 != 0) carries[n / 32] = carry_out;
        uint32_t lcs = IN_STRIPS && strip > 0 ? args.zeros[text] : 0;
        UNROLL
        for (unsigned w = 0; w < WORDS; w++) {
            if (32 * w >= n_here) continue;
            uint32_t bits = n_here - 32 * w;
            lcs += uint32_t(__popc(~v[w] & (bits >= 32 ? 0xffffffffu : (1u << bits) - 1)));
        }
        if (IN_STRIPS) args.zeros[text] = lcs;
        if (strip + 1 == n_strips && lcs >= args.least[m + n]) {
            uint64_t at = atomicAdd(args.n_pairs, uint64_t(1));
            if (at < args.capacity) args.pairs[at] = {pattern, uint32_t(text), lcs};
        }
    }
}

KERNEL(THREADS, pair_similarity_pairs_2, Args) { find_pairs<2, false>(args); }
KERNEL(THREADS, pair_similarity_pairs_4, Args) { find_pairs<4, false>(args); }
KERNEL(THREADS, pair_similarity_pairs_8, Args) { find_pairs<8, false>(args); }
KERNEL(THREADS, pair_similarity_pairs_16, Args) { find_pairs<16, false>(args); }
KERNEL_OF_BLOCKS(THREADS, 1, pair_similarity_pairs_long, Args) { find_pairs<STRIP_WORDS, true>(args); }

}  // namespace pair_similarity
