// linear_loss: the three products between hidden states, the weight of the LM head, and logits.
//
//   forward          logits[j, v] = sum_h hidden[i_j, h] weight[v, h]
//   grad_hidden      dh[i_j, h]   = sum_v dlogits[j, v] weight[v, h]
//   grad_weight      dw[v, h]    += sum_j dlogits[j, v] hidden[i_j, h]
//
// What is between them is logits_loss.cu. src/reference/logits.rs is the specification.
//
// Shapes: one product C[m, n] = sum_k A[m, k] B[k, n], each operand with any strides, one of them 1; rows may be picked by an index.
// Launch: one block of 256 threads for each tile of 64 x 64 of C, 16 of k at a time, 4 x 4 sums to a thread.
// Operations: 2 m n k, in f32 with fmaf: each sum runs in the order of k, so a row has the same bits in every batch.
// Moves: A once for each 64 columns of C, B once for each 64 rows. Prediction: dev/cuda.md.

#include "common.cuh"

namespace linear_loss {

constexpr unsigned THREADS = 256;
constexpr unsigned TILE = 64;
constexpr unsigned DEPTH = 16;
constexpr unsigned EACH = 4;
// Rows of a tile are this far apart: stores to shared memory by neighbouring threads fall into different banks.
constexpr unsigned PITCH = TILE + 4;

struct Args {
    const void *a, *b;
    void* c;
    // Which rows of A (m), B (k) and C (m) are meant; absent for themselves.
    const int64_t *a_rows, *b_rows, *c_rows;
    // Gradients of the tokens of which rows of A (m) or B (k) are the logits: a row with none is not multiplied.
    const float *by_log_prob, *by_entropy;
    const int64_t* tokens;
    int64_t m, n, k;
    int64_t a_m, a_k, b_k, b_n, c_m;
    uint32_t a_dtype, b_dtype, c_dtype;
    // C += instead of C =.
    uint32_t adds;
    // 1: tokens are rows of A and C; 2: tokens are k.
    uint32_t tokens_are, unused;
};

__device__ bool has_gradient(const Args& args, int64_t i) {
    int64_t token = args.tokens[i];
    return args.by_log_prob[token] != 0.0f || args.by_entropy[token] != 0.0f;
}

KERNEL(THREADS, linear_loss_product, Args) {
    SHARED(float[DEPTH][PITCH], a_tile);
    SHARED(float[DEPTH][PITCH], b_tile);
    int64_t tiles_n = (args.n + TILE - 1) / TILE;
    int64_t m_start = blockIdx.x / tiles_n * TILE, n_start = blockIdx.x % tiles_n * TILE;
    unsigned m_here = threadIdx.x / (TILE / EACH) * EACH, n_here = threadIdx.x % (TILE / EACH) * EACH;
    float sums[EACH][EACH] = {};
    for (int64_t k_start = 0; k_start < args.k; k_start += DEPTH) {
        // Neighbouring threads take neighbours in memory.
        UNROLL
        for (unsigned i = threadIdx.x; i < DEPTH * TILE; i += THREADS) {
            unsigned k = args.a_k == 1 ? i % DEPTH : i / TILE, x = args.a_k == 1 ? i / DEPTH : i % TILE;
            int64_t m = m_start + x, at_k = k_start + k;
            float value = 0.0f;
            if (m < args.m && at_k < args.k) {
                int64_t row = args.a_rows ? args.a_rows[m] : m;
                value = load(args.a, args.a_dtype, row * args.a_m + at_k * args.a_k);
            }
            a_tile[k][x] = value;
        }
        UNROLL
        for (unsigned i = threadIdx.x; i < DEPTH * TILE; i += THREADS) {
            unsigned k = args.b_k == 1 ? i % DEPTH : i / TILE, x = args.b_k == 1 ? i / DEPTH : i % TILE;
            int64_t n = n_start + x, at_k = k_start + k;
            float value = 0.0f;
            if (n < args.n && at_k < args.k && (args.tokens_are != 2 || has_gradient(args, at_k))) {
                int64_t row = args.b_rows ? args.b_rows[at_k] : at_k;
                value = load(args.b, args.b_dtype, row * args.b_k + n * args.b_n);
            }
            b_tile[k][x] = value;
        }
        __syncthreads();
        UNROLL
        for (unsigned k = 0; k < DEPTH; k++) {
            auto a = *reinterpret_cast<const float4*>(&a_tile[k][m_here]);
            auto b = *reinterpret_cast<const float4*>(&b_tile[k][n_here]);
            float of_a[EACH] = {a.x, a.y, a.z, a.w}, of_b[EACH] = {b.x, b.y, b.z, b.w};
            UNROLL
            for (unsigned i = 0; i < EACH; i++) {
                UNROLL
                for (unsigned j = 0; j < EACH; j++) sums[i][j] = fmaf(of_a[i], of_b[j], sums[i][j]);
            }
        }
        __syncthreads();
    }
    UNROLL
    for (unsigned i = 0; i < EACH; i++) {
        int64_t m = m_start + m_here + i;
        if (m >= args.m) continue;
        bool is_zero = args.tokens_are == 1 && !has_gradient(args, m);
        int64_t row = args.c_rows ? args.c_rows[m] : m;
        UNROLL
        for (unsigned j = 0; j < EACH; j++) {
            int64_t n = n_start + n_here + j;
            if (n >= args.n) continue;
            int64_t at = row * args.c_m + n;
            float value = is_zero ? 0.0f : sums[i][j];
            if (args.adds) value += load(args.c, args.c_dtype, at);
            store(args.c, args.c_dtype, at, value);
        }
    }
}

}  // namespace linear_loss
