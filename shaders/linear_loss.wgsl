// linear_loss: the products of matrices between hidden states, the weight of the LM head and logits; the rest of it is
// logits_loss.wgsl over the logits of a chunk of tokens.
//
//   C = A B, or C += A B
//
// A sum over k is made of sums over 16 neighbouring k, added first to last: the same bits however k is cut at multiples
// of 16, and whatever is beside a row or a column.
//
// Shapes: A is [m, k], B [k, n], C [m, n] of f32, each with a first element and strides of rows and columns in elements; A
// and B of f32, bf16 or f16, packed two to a word. At most 1024 k in a dispatch.
// Dispatch: one workgroup of 16 x 16 threads for each 64 x 64 of C; a thread has 4 x 4 of them.
// Moves: A (n / 64) times and B (m / 64) times, from memory or a cache; C once, or twice where it is added to.

struct Args {
    m: u32,
    n: u32,
    k: u32,
    adds: u32,
    a_first: u32,
    a_row: u32,
    a_column: u32,
    a_dtype: u32,
    b_first: u32,
    b_row: u32,
    b_column: u32,
    b_dtype: u32,
    c_first: u32,
    c_row: u32,
    unused_0: u32,
    unused_1: u32,
}

@group(0) @binding(0) var<uniform> args: Args;
@group(0) @binding(1) var<storage, read> a: array<u32>;
@group(0) @binding(2) var<storage, read> b: array<u32>;
@group(0) @binding(3) var<storage, read_write> c: array<f32>;

// Rows and columns of a workgroup, and k that are in workgroup memory together.
const BLOCK: u32 = 64u;
const DEPTH: u32 = 16u;
const THREADS: u32 = 256u;

// [k, m] and [k, n].
var<workgroup> a_block: array<f32, 1024>;
var<workgroup> b_block: array<f32, 1024>;

fn a_at(i: u32, k: u32) -> f32 {
    if i >= args.m || k >= args.k {
        return 0.0;
    }
    let at = args.a_first + i * args.a_row + k * args.a_column;
    if args.a_dtype == 0u {
        return bitcast<f32>(a[at]);
    }
    return bitcast<f32>(unpacked(a[at / 2u], args.a_dtype, at % 2u));
}

fn b_at(k: u32, j: u32) -> f32 {
    if j >= args.n || k >= args.k {
        return 0.0;
    }
    let at = args.b_first + k * args.b_row + j * args.b_column;
    if args.b_dtype == 0u {
        return bitcast<f32>(b[at]);
    }
    return bitcast<f32>(unpacked(b[at / 2u], args.b_dtype, at % 2u));
}

fn c_at(i: u32, j: u32) -> vec4<f32> {
    var values = vec4<f32>(0.0);
    if args.adds != 0u && i < args.m {
        let at = args.c_first + i * args.c_row + j;
        for (var s = 0u; s < 4u; s++) {
            if j + s < args.n {
                values[s] = c[at + s];
            }
        }
    }
    return values;
}

fn write_c(i: u32, j: u32, values: vec4<f32>) {
    if i < args.m {
        let at = args.c_first + i * args.c_row + j;
        for (var s = 0u; s < 4u; s++) {
            if j + s < args.n {
                c[at + s] = values[s];
            }
        }
    }
}

@compute @workgroup_size(256)
fn linear_product(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let number = group.y * groups.x + group.x;
    let blocks_in_row = (args.n + BLOCK - 1u) / BLOCK;
    let first_i = number / blocks_in_row * BLOCK;
    let first_j = number % blocks_in_row * BLOCK;
    if first_i >= args.m {
        return;
    }
    let own_i = thread / 16u * 4u;
    let own_j = thread % 16u * 4u;
    let i = first_i + own_i;
    let j = first_j + own_j;
    var total_0 = c_at(i, j);
    var total_1 = c_at(i + 1u, j);
    var total_2 = c_at(i + 2u, j);
    var total_3 = c_at(i + 3u, j);
    for (var first_k = 0u; first_k < args.k; first_k += DEPTH) {
        for (var at = thread; at < BLOCK * DEPTH; at += THREADS) {
            // Neighbouring threads read neighbouring elements, whichever way the matrix lies.
            let is_by_k = args.a_column == 1u;
            let k = select(at / BLOCK, at % DEPTH, is_by_k);
            let place = select(at % BLOCK, at / DEPTH, is_by_k);
            a_block[k * BLOCK + place] = a_at(first_i + place, first_k + k);
        }
        for (var at = thread; at < BLOCK * DEPTH; at += THREADS) {
            let is_by_k = args.b_row == 1u;
            let k = select(at / BLOCK, at % DEPTH, is_by_k);
            let place = select(at % BLOCK, at / DEPTH, is_by_k);
            b_block[k * BLOCK + place] = b_at(first_k + k, first_j + place);
        }
        workgroupBarrier();
        var sum_0 = vec4<f32>(0.0);
        var sum_1 = vec4<f32>(0.0);
        var sum_2 = vec4<f32>(0.0);
        var sum_3 = vec4<f32>(0.0);
        for (var k = 0u; k < DEPTH; k++) {
            let x = k * BLOCK + own_i;
            let y = k * BLOCK + own_j;
            let of_b = vec4<f32>(b_block[y], b_block[y + 1u], b_block[y + 2u], b_block[y + 3u]);
            sum_0 = fma(vec4<f32>(a_block[x]), of_b, sum_0);
            sum_1 = fma(vec4<f32>(a_block[x + 1u]), of_b, sum_1);
            sum_2 = fma(vec4<f32>(a_block[x + 2u]), of_b, sum_2);
            sum_3 = fma(vec4<f32>(a_block[x + 3u]), of_b, sum_3);
        }
        total_0 += sum_0;
        total_1 += sum_1;
        total_2 += sum_2;
        total_3 += sum_3;
        workgroupBarrier();
    }
    write_c(i, j, total_0);
    write_c(i + 1u, j, total_1);
    write_c(i + 2u, j, total_2);
    write_c(i + 3u, j, total_3);
}
