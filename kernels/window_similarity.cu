// window_similarity: which windows match, over all pairs of windows of one edit type, and the best one of each turn.
//
//   lex(a, b) = 2 LCS(a, b) / (|a| + |b|)        sim = lex, or (1 - w) lex + w cos(a, b) with sums of line vectors
//
// A start is a line of a root with the lines after it; its rows are the windows that begin there. One bit-vector LCS
// (Hyyro 2004) of pattern start A against text start B gives, at each line end of B, the LCS of every row of A with that row
// of B: a count of zero bits. src/reference/similarity.rs is the specification; terms as in src/params/windows.rs.
//
// Launch: pairs, one block of 128 threads for each pattern start and 128 text starts: the pattern's match masks in shared
// memory, a text in each thread, the bit vector in registers (2 to 16 words of 32 tokens). Longer patterns take strips of 512
// tokens; what a strip carries over to the next is kept for each text token. judge and offers: a thread for each pair found.
// gram: a block of 256 threads for each tile of 16 x 16 lines. norms and own: a thread for each row.
// Operations: for each token of a text 5 to 6 a word; for each line end a popcount a word and about 8 for each row in the range
// of lengths. Integers only, but for the similarities of pairs that match (f64). Prediction: dev/cuda.md.

#include "bit_lcs.cuh"

namespace window_similarity {

using namespace bit_lcs;

constexpr unsigned TILE = 16;

struct Start {
    uint32_t first_line, n_lines;
};

struct Pair {
    uint32_t a, b, lcs, unused;
    // Below 0: does not match.
    double similarity;
};

struct Args {
    const uint32_t *tokens, *line_tokens, *line_ids;
    const Start* starts;
    const uint32_t *start_rows, *row_lines, *row_tokens, *row_start;
    // The least LCS of a match, by the sum of the lengths; the least and the most tokens that can match, by the tokens.
    const uint32_t *least, *shortest, *longest;
    const uint32_t *row_places, *place_turns, *place_ranks;
    const int8_t* vectors;
    // (line ids) squared, if there are vectors.
    int32_t* gram;
    // Squared length of the vector of each row.
    int64_t* norms;
    Pair* pairs;
    uint64_t* n_pairs;
    uint64_t capacity;
    // Rows of the block x turns: bits of the best similarity + 1, or 0; difference of token counts and rank.
    uint64_t *best, *ties;
    // Of each text, for patterns in strips: a bit for each of its tokens, and a count for each of its rows.
    uint32_t *carries, *zeros;
    uint32_t carry_words, zero_rows;
    // Patterns, and the block of starts whose pairs are wanted: a pair inside the block is found once.
    uint32_t first_pattern, n_patterns, block_start, block_end, n_starts, n_rows;
    uint32_t n_turns, dim, n_line_ids, unused;
    double weight, eta;
};

// Whether a text is compared with a pattern of the block.
__device__ __forceinline__ bool is_wanted(const Args& args, uint32_t pattern, uint32_t text) {
    return text < args.n_starts && (text >= pattern || text < args.block_start);
}

__device__ void append(const Args& args, uint32_t a, uint32_t b, uint32_t lcs) {
    uint64_t at = atomicAdd(args.n_pairs, uint64_t(1));
    if (at < args.capacity) args.pairs[at] = {a, b, lcs, 0, 0.0};
}

// The rows of the pattern from `first_row` on that end in this strip, against row b of the text.
template <unsigned WORDS>
__device__ __forceinline__ uint32_t read_rows(const Args& args, const uint32_t (&v)[WORDS], uint32_t start, uint32_t first_row,
                                              uint32_t end_row, uint32_t b, uint32_t strip, uint32_t zeros) {
    uint32_t n = args.row_tokens[b];
    uint32_t shortest = args.shortest[n], longest = args.longest[n];
    bool is_same_start = args.row_start[b] == start;
    uint32_t a = first_row;
    UNROLL
    for (unsigned w = 0; w < WORDS; w++) {
        // Tokens before this word.
        uint32_t before = strip * STRIP_TOKENS + 32 * w;
        for (; a < end_row && args.row_tokens[a] <= before + 32; a++) {
            uint32_t m = args.row_tokens[a];
            if (m < shortest || m > longest || (is_same_start && b <= a)) continue;
            uint32_t bits = m - before;
            uint32_t low = bits >= 32 ? 0xffffffffu : (1u << bits) - 1;
            uint32_t lcs = zeros + uint32_t(__popc(~v[w] & low));
            if (lcs >= args.least[m + n]) append(args, a, b, lcs);
        }
        zeros += uint32_t(__popc(~v[w]));
    }
    return zeros;
}

template <unsigned WORDS, bool IN_STRIPS>
__device__ void find_pairs(const Args& args) {
    DYNAMIC_SHARED(Masks<WORDS>, masks);
    uint32_t texts = (args.n_starts + THREADS - 1) / THREADS;
    uint32_t pattern = args.first_pattern + blockIdx.x / texts;
    uint32_t text = blockIdx.x % texts * THREADS + threadIdx.x;
    // The same for all threads of the block.
    if (!__syncthreads_or(is_wanted(args, pattern, text))) return;

    Start of_pattern = args.starts[pattern];
    uint32_t first_token = args.line_tokens[of_pattern.first_line];
    uint32_t n_tokens = args.line_tokens[of_pattern.first_line + of_pattern.n_lines] - first_token;
    uint32_t end_row = args.start_rows[pattern + 1], first_row = args.start_rows[pattern];
    uint32_t n_strips = IN_STRIPS ? (n_tokens + STRIP_TOKENS - 1) / STRIP_TOKENS : 1;
    for (uint32_t strip = 0; strip < n_strips; strip++) {
        uint32_t from = strip * STRIP_TOKENS;
        uint32_t n_here = IN_STRIPS && n_tokens - from > STRIP_TOKENS ? STRIP_TOKENS : n_tokens - from;
        __syncthreads();
        masks->build(args.tokens + first_token + from, n_here);
        while (IN_STRIPS && strip > 0 && first_row < end_row && args.row_tokens[first_row] <= from) first_row++;
        if (!is_wanted(args, pattern, text)) continue;

        Start of_text = args.starts[text];
        uint32_t b = args.start_rows[text], end_b = args.start_rows[text + 1];
        uint32_t v[WORDS];
        UNROLL
        for (unsigned w = 0; w < WORDS; w++) v[w] = 0xffffffffu;
        uint32_t first = args.line_tokens[of_text.first_line], end = first, n_seen = 0;
        uint32_t carried = 0, carry_out = 0;
        uint32_t* carries = IN_STRIPS ? args.carries + uint64_t(text) * args.carry_words : nullptr;
        uint32_t* zeros_of = IN_STRIPS ? args.zeros + uint64_t(text) * args.zero_rows : nullptr;
        for (uint32_t line = 1; b < end_b && line <= of_text.n_lines; line++) {
            first = end;
            end = args.line_tokens[of_text.first_line + line];
            for (uint32_t at = first; at < end; at++) {
                if (IN_STRIPS && n_seen % 32 == 0) carried = strip > 0 ? carries[n_seen / 32] : 0;
                const uint32_t* mask = masks->masks[masks->find(args.tokens[at])];
                uint32_t carry = step<WORDS>(v, mask, IN_STRIPS ? carried >> n_seen % 32 & 1 : 0);
                if (IN_STRIPS) {
                    carry_out |= carry << n_seen % 32;
                    n_seen++;
                    if (n_seen % 32 == 0) {
                        carries[n_seen / 32 - 1] = carry_out;
                        carry_out = 0;
                    }
                }
            }
            if (args.row_lines[b] != line) continue;
            uint32_t of_row = b - args.start_rows[text];
            uint32_t zeros = IN_STRIPS && strip > 0 ? zeros_of[of_row] : 0;
            zeros = read_rows<WORDS>(args, v, pattern, first_row, end_row, b, strip, zeros);
            if (IN_STRIPS) zeros_of[of_row] = zeros;
            b++;
        }
        if (IN_STRIPS && n_seen % 32 != 0) carries[n_seen / 32] = carry_out;
    }
}

KERNEL(THREADS, window_similarity_pairs_2, Args) { find_pairs<2, false>(args); }
KERNEL(THREADS, window_similarity_pairs_4, Args) { find_pairs<4, false>(args); }
KERNEL(THREADS, window_similarity_pairs_8, Args) { find_pairs<8, false>(args); }
KERNEL(THREADS, window_similarity_pairs_16, Args) { find_pairs<16, false>(args); }
KERNEL_OF_BLOCKS(THREADS, 1, window_similarity_pairs_long, Args) { find_pairs<STRIP_WORDS, true>(args); }

// Products of the vectors of all lines with all lines. Blocks over tiles of TILE x TILE; four bytes at a time.
KERNEL(TILE* TILE, window_similarity_gram, Args) {
    SHARED(int32_t[TILE][TILE + 1], of_a);
    SHARED(int32_t[TILE][TILE + 1], of_b);
    uint32_t tiles = (args.n_line_ids + TILE - 1) / TILE;
    uint32_t x = threadIdx.x % TILE, y = threadIdx.x / TILE;
    uint32_t a = blockIdx.x / tiles * TILE, b = blockIdx.x % tiles * TILE;
    int32_t sum = 0;
    // Four bytes of a vector; zeros past its end.
    auto four = [&](uint32_t line, uint32_t first) {
        uint32_t packed = 0;
        for (uint32_t i = 0; i < 4 && line < args.n_line_ids && first + i < args.dim; i++) {
            packed |= uint32_t(uint8_t(args.vectors[uint64_t(line) * args.dim + first + i])) << 8 * i;
        }
        return int32_t(packed);
    };
    for (uint32_t first = 0; first < args.dim; first += 4 * TILE) {
        of_a[y][x] = four(a + y, first + 4 * x);
        of_b[y][x] = four(b + y, first + 4 * x);
        __syncthreads();
        for (uint32_t i = 0; i < TILE; i++) sum = __dp4a(of_a[y][i], of_b[x][i], sum);
        __syncthreads();
    }
    if (a + y < args.n_line_ids && b + x < args.n_line_ids) args.gram[uint64_t(a + y) * args.n_line_ids + b + x] = sum;
}

// The product of the vectors of two windows: the sum over all pairs of their lines.
__device__ int64_t product(const Args& args, uint32_t a, uint32_t b) {
    const uint32_t* lines_a = args.line_ids + args.starts[args.row_start[a]].first_line;
    const uint32_t* lines_b = args.line_ids + args.starts[args.row_start[b]].first_line;
    uint32_t n_a = args.row_lines[a], n_b = args.row_lines[b];
    int64_t sum = 0;
    for (uint32_t i = 0; i < n_a; i++) {
        const int32_t* products = args.gram + uint64_t(lines_a[i]) * args.n_line_ids;
        for (uint32_t j = 0; j < n_b; j++) sum += products[lines_b[j]];
    }
    return sum;
}

KERNEL(THREADS, window_similarity_norms, Args) {
    uint32_t row = blockIdx.x * THREADS + threadIdx.x;
    if (row < args.n_rows) args.norms[row] = product(args, row, row);
}

__device__ double lexical(uint32_t lcs, uint32_t sum) { return sum == 0 ? 1.0 : 2.0 * double(lcs) / double(sum); }

// Exactly 1 for equal vectors, 0 when one is zero.
__device__ double cosine(double product, int64_t norm_a, int64_t norm_b) {
    if (norm_a == 0 || norm_b == 0) return 0.0;
    double cosine = product / sqrt(double(norm_a) * double(norm_b));
    return cosine < -1.0 ? -1.0 : cosine > 1.0 ? 1.0 : cosine;
}

KERNEL(THREADS, window_similarity_judge, Args) {
    uint64_t i = uint64_t(blockIdx.x) * THREADS + threadIdx.x;
    if (i >= *args.n_pairs || i >= args.capacity) return;
    Pair& pair = args.pairs[i];
    double similarity = lexical(pair.lcs, args.row_tokens[pair.a] + args.row_tokens[pair.b]);
    if (args.gram) {
        double emb = cosine(double(product(args, pair.a, pair.b)), args.norms[pair.a], args.norms[pair.b]);
        similarity = (1.0 - args.weight) * similarity + args.weight * emb;
        if (!(similarity >= args.eta)) similarity = -1.0;
    }
    pair.similarity = similarity;
}

// The order of floats from 0 is that of their bits. One more tells 0 from no place.
__device__ __forceinline__ uint64_t key_of(double similarity) {
    double held = similarity > 0.0 ? similarity : 0.0;
    return bits_of(held) + 1;
}

// Offers the places of row `other` to row `row`: their similarity, then, where that is the best, difference and rank.
__device__ void offer(const Args& args, uint32_t row, uint32_t other, double similarity, bool is_tie) {
    uint32_t start = args.row_start[row];
    if (start < args.block_start || start >= args.block_end) return;
    uint64_t first = uint64_t(row - args.start_rows[args.block_start]) * args.n_turns;
    uint32_t m = args.row_tokens[row], n = args.row_tokens[other];
    uint64_t difference = m > n ? m - n : n - m, key = key_of(similarity);
    for (uint32_t place = args.row_places[other]; place < args.row_places[other + 1]; place++) {
        uint64_t cell = first + args.place_turns[place];
        if (!is_tie) {
            atomicMax(&args.best[cell], key);
        } else if (args.best[cell] == key) {
            atomicMin(&args.ties[cell], difference << 32 | args.place_ranks[place]);
        }
    }
}

__device__ void offer_pair(const Args& args, bool is_tie) {
    uint64_t i = uint64_t(blockIdx.x) * THREADS + threadIdx.x;
    if (i >= *args.n_pairs) return;
    Pair pair = args.pairs[i];
    if (pair.similarity < 0.0) return;
    offer(args, pair.a, pair.b, pair.similarity, is_tie);
    offer(args, pair.b, pair.a, pair.similarity, is_tie);
}

KERNEL(THREADS, window_similarity_offer, Args) { offer_pair(args, false); }
KERNEL(THREADS, window_similarity_tie, Args) { offer_pair(args, true); }

// Empty cells, but for a row's own places: similarity 1, difference 0. A thread for each row of the block.
KERNEL(THREADS, window_similarity_own, Args) {
    uint32_t row = args.start_rows[args.block_start] + blockIdx.x * THREADS + threadIdx.x;
    if (row >= args.start_rows[args.block_end]) return;
    uint64_t first = uint64_t(row - args.start_rows[args.block_start]) * args.n_turns;
    for (uint32_t turn = 0; turn < args.n_turns; turn++) {
        args.best[first + turn] = 0;
        args.ties[first + turn] = ~uint64_t(0);
    }
    for (uint32_t place = args.row_places[row]; place < args.row_places[row + 1]; place++) {
        args.best[first + args.place_turns[place]] = key_of(1.0);
        args.ties[first + args.place_turns[place]] = args.place_ranks[place];
    }
}

}  // namespace window_similarity
