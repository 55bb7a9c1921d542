// logits_loss: what a row of logits gives for its target's log-prob and its entropy, and the gradient by every logit.
//
//   d_j = (z_j - max) / T,  S = sum exp(d_j),  W = sum exp(d_j) d_j        (log-prob and entropy: on the host, in f64)
//   dz_j = -p_j / T (g + h (log p_j + H)) = exp(d_j) / S (constant + slope d_j);  the target's comes from the host
//
// Shapes: `logits` has `row_words` words for each row, of f32, bf16 or f16; `n_vocab` values of a row are read, those after
// are padding. `rows` has a Row for each row. `found` gets FIELDS words for each row: max, 1 where there is NaN or +inf,
// the target's logit, then PARTS parts of S and as many of W, which the host adds in f64.
// Dispatch: one workgroup of 256 threads for each row; neighbouring threads have neighbouring words.
// Moves: logits_read reads a row twice, the second time from a cache; logits_write reads and writes it once.

struct Args {
    n_rows: u32,
    n_vocab: u32,
    row_words: u32,
    dtype: u32,
}

struct Row {
    // Column of the target.
    wanted: u32,
    // 1 / T.
    inverse: f32,
    largest: f32,
    inverse_sum: f32,
    constant: f32,
    slope: f32,
    // The target's gradient in the dtype of the logits.
    of_target: u32,
    mode: u32,
}

@group(0) @binding(0) var<uniform> args: Args;
@group(0) @binding(1) var<storage, read> rows: array<Row>;
@group(0) @binding(2) var<storage, read_write> logits: array<u32>;
@group(0) @binding(3) var<storage, read_write> found: array<u32>;

const THREADS: u32 = 256u;
const PARTS: u32 = 16u;
const FIELDS: u32 = 35u;
// Differences to the maximum below this have probability 0: exp is below 1.7e-38.
const LEAST: f32 = -87.0;
const NO_GRADIENT: u32 = 0u;
const NOT_A_NUMBER: u32 = 1u;
const MINUS_INFINITY: u32 = 0xff800000u;

var<workgroup> bad: atomic<u32>;
var<workgroup> sums: array<f32, 256>;
var<workgroup> weighted: array<f32, 256>;

fn values_in_word() -> u32 {
    return select(2u, 1u, args.dtype == 0u);
}

@compute @workgroup_size(256)
fn logits_read(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let number = group.y * groups.x + group.x;
    if number >= args.n_rows {
        return;
    }
    let row = rows[number];
    let first = number * args.row_words;
    let in_word = values_in_word();
    let n_words = (args.n_vocab + in_word - 1u) / in_word;

    var largest = -LARGEST;
    var is_bad = false;
    for (var word = thread; word < n_words; word += THREADS) {
        let packed = logits[first + word];
        for (var k = 0u; k < in_word; k++) {
            let bits = unpacked(packed, args.dtype, k);
            let column = word * in_word + k;
            if column < args.n_vocab && bits != MINUS_INFINITY {
                if is_finite_bits(bits) {
                    largest = max(largest, bitcast<f32>(bits));
                } else {
                    is_bad = true;
                }
            }
            if column == row.wanted {
                found[number * FIELDS + 2u] = bits;
            }
        }
    }
    if is_bad {
        atomicStore(&bad, 1u);
    }
    sums[thread] = largest;
    for (var n = THREADS / 2u; n > 0u; n /= 2u) {
        workgroupBarrier();
        if thread < n {
            sums[thread] = max(sums[thread], sums[thread + n]);
        }
    }
    workgroupBarrier();
    largest = sums[0];
    workgroupBarrier();

    var sum = 0.0;
    var sum_weighted = 0.0;
    // Parts of a few dozen values, so that rounding does not grow with the row.
    var part = 0.0;
    var part_weighted = 0.0;
    var n_in_part = 0u;
    for (var word = thread; word < n_words; word += THREADS) {
        let packed = logits[first + word];
        for (var k = 0u; k < in_word; k++) {
            let bits = unpacked(packed, args.dtype, k);
            if word * in_word + k < args.n_vocab && is_finite_bits(bits) {
                let d = (bitcast<f32>(bits) - largest) * row.inverse;
                if d >= LEAST {
                    let e = exp_of(d);
                    part += e;
                    part_weighted = fma(e, d, part_weighted);
                }
            }
        }
        n_in_part++;
        if n_in_part == 24u {
            sum += part;
            sum_weighted += part_weighted;
            part = 0.0;
            part_weighted = 0.0;
            n_in_part = 0u;
        }
    }
    sums[thread] = sum + part;
    weighted[thread] = sum_weighted + part_weighted;
    for (var n = THREADS / 2u; n >= PARTS; n /= 2u) {
        workgroupBarrier();
        if thread < n {
            sums[thread] += sums[thread + n];
            weighted[thread] += weighted[thread + n];
        }
    }
    workgroupBarrier();
    let to = number * FIELDS;
    if thread < PARTS {
        found[to + 3u + thread] = bitcast<u32>(sums[thread]);
        found[to + 3u + PARTS + thread] = bitcast<u32>(weighted[thread]);
    }
    if thread == 0u {
        found[to] = bitcast<u32>(largest);
        found[to + 1u] = atomicLoad(&bad);
    }
}

// The gradient by a logit, in the dtype of the logits.
fn gradient_of(row: Row, column: u32, bits: u32) -> u32 {
    if row.mode == NO_GRADIENT || column >= args.n_vocab {
        return 0u;
    }
    if column == row.wanted && row.mode != NOT_A_NUMBER {
        return row.of_target;
    }
    var gradient = NAN_BITS;
    if row.mode != NOT_A_NUMBER {
        var value = 0.0;
        if is_finite_bits(bits) {
            let d = (bitcast<f32>(bits) - row.largest) * row.inverse;
            if d >= LEAST {
                value = exp_of(d) * row.inverse_sum * fma(row.slope, d, row.constant);
            }
        }
        gradient = bitcast<u32>(value);
    }
    if args.dtype == 0u {
        return gradient;
    }
    if args.dtype == 1u {
        return narrowed_to_bf16(gradient);
    }
    return narrowed_to_f16(gradient);
}

// Writes the gradient over the logits.
@compute @workgroup_size(256)
fn logits_write(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let number = group.y * groups.x + group.x;
    if number >= args.n_rows {
        return;
    }
    let row = rows[number];
    let first = number * args.row_words;
    for (var word = thread; word < args.row_words; word += THREADS) {
        let packed = logits[first + word];
        if args.dtype == 0u {
            logits[first + word] = gradient_of(row, word, packed);
        } else {
            let low = gradient_of(row, word * 2u, unpacked(packed, args.dtype, 0u));
            let high = gradient_of(row, word * 2u + 1u, unpacked(packed, args.dtype, 1u));
            logits[first + word] = low | (high << 16u);
        }
    }
}
