// token_advantage: advantages of the members of segments, in f64 and rounded to f32 once; and the owner of every token.
//
//   W = sum w,  mean = sum w x / W,  d = x - mean;  the advantage is d, or d W / (W - w), or d / (std + eps) with
//   std = sqrt(sum w d^2 / (W - ddof)).  The order of summation is that of the members.
//   An owner is the member with the most bytes in a token, the lowest number among equals.
//
// Shapes: `words` holds, each at its offset in Args: offsets of the segments; values and weights as f64, NaN for a value
// that is in no sum; for owners the byte ends of tokens and three words for each piece (start, end, member). `found` has
// STATE words for each segment, zeros at first, then the f32 of each member, NaN where it is not finite; or the owners.
// Dispatch: token_advantage_sums and _squares, a thread for each segment, once for every `most` members; _mean and _scale, a
// thread for each segment; _members and token_owners, a thread for each member or token. 64 threads to a workgroup.
// Moves, for each member: 8 B of value and weight three times, and 4 B; for each token 8 B and its pieces.

struct Args {
    n_segments: u32,
    n_members: u32,
    // Members of each segment that earlier dispatches have added, and that this one adds at most.
    first: u32,
    most: u32,
    offsets: u32,
    values: u32,
    weights: u32,
    divide: u32,
    leave_one_out: u32,
    n_pieces: u32,
    byte_ends: u32,
    pieces: u32,
    // End of the token before the first.
    first_byte: u32,
    most_pieces: u32,
    eps: vec2<u32>,
    ddof: vec2<u32>,
    unused: vec2<u32>,
}

@group(0) @binding(0) var<uniform> args: Args;
@group(0) @binding(1) var<storage, read> words: array<u32>;
@group(0) @binding(2) var<storage, read_write> found: array<u32>;

// Words of a segment in `found`.
const STATE: u32 = 16u;
const N_SCORED: u32 = 0u;
const STATUS: u32 = 1u;
const TOTAL: u32 = 2u;
const SUM: u32 = 4u;
const LEAST: u32 = 6u;
const MOST: u32 = 8u;
const MEAN: u32 = 10u;
const SQUARES: u32 = 12u;
const SCALE: u32 = 14u;

// Why a segment has no advantages.
const UNSCORED: u32 = 1u;
const SINGLETON: u32 = 2u;
const NO_SPREAD: u32 = 3u;

const NONE: u32 = 0xffffffffu;
// The token has more pieces than a thread may look at.
const LEFT_TO_HOST: u32 = 0xfffffffeu;

fn number_at(at: u32) -> vec2<u32> {
    return vec2<u32>(words[at], words[at + 1u]);
}

fn value_of(member: u32) -> vec2<u32> {
    return number_at(args.values + member * 2u);
}

fn weight_of(member: u32) -> vec2<u32> {
    if args.weights == ABSENT {
        return F64_ONE;
    }
    return number_at(args.weights + member * 2u);
}

fn field(segment: u32, which: u32) -> vec2<u32> {
    let at = segment * STATE + which;
    return vec2<u32>(found[at], found[at + 1u]);
}

fn set_field(segment: u32, which: u32, number: vec2<u32>) {
    let at = segment * STATE + which;
    found[at] = number.x;
    found[at + 1u] = number.y;
}

// Members of a segment that this dispatch adds.
fn part_of(segment: u32) -> vec2<u32> {
    let start = words[args.offsets + segment];
    let end = words[args.offsets + segment + 1u];
    let first = min(start + args.first, end);
    return vec2<u32>(first, min(first + args.most, end));
}

@compute @workgroup_size(64)
fn token_advantage_sums(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let segment = (group.y * groups.x + group.x) * 64u + thread;
    if segment >= args.n_segments {
        return;
    }
    let part = part_of(segment);
    var n_scored = found[segment * STATE + N_SCORED];
    var total = field(segment, TOTAL);
    var sum = field(segment, SUM);
    var least = field(segment, LEAST);
    var most = field(segment, MOST);
    for (var i = part.x; i < part.y; i++) {
        let x = value_of(i);
        if f64_is_nan(x) {
            continue;
        }
        let weight = weight_of(i);
        if n_scored == 0u || f64_less(x, least) {
            least = x;
        }
        if n_scored == 0u || f64_less(most, x) {
            most = x;
        }
        n_scored++;
        total = f64_add(total, weight);
        sum = f64_add(sum, f64_mul(weight, x));
    }
    found[segment * STATE + N_SCORED] = n_scored;
    set_field(segment, TOTAL, total);
    set_field(segment, SUM, sum);
    set_field(segment, LEAST, least);
    set_field(segment, MOST, most);
}

@compute @workgroup_size(64)
fn token_advantage_mean(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let segment = (group.y * groups.x + group.x) * 64u + thread;
    if segment >= args.n_segments {
        return;
    }
    let n_scored = found[segment * STATE + N_SCORED];
    let total = field(segment, TOTAL);
    let least = field(segment, LEAST);
    let most = field(segment, MOST);
    var status = 0u;
    if n_scored == 0u {
        status = UNSCORED;
    } else if n_scored == 1u || (args.divide != 0u && !f64_less(args.ddof, total)) {
        status = SINGLETON;
    } else if !f64_less(least, most) {
        status = NO_SPREAD;
    } else {
        set_field(segment, MEAN, f64_div(field(segment, SUM), total));
    }
    found[segment * STATE + STATUS] = status;
}

@compute @workgroup_size(64)
fn token_advantage_squares(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let segment = (group.y * groups.x + group.x) * 64u + thread;
    if segment >= args.n_segments || found[segment * STATE + STATUS] != 0u {
        return;
    }
    let part = part_of(segment);
    let mean = field(segment, MEAN);
    var squares = field(segment, SQUARES);
    for (var i = part.x; i < part.y; i++) {
        let x = value_of(i);
        if !f64_is_nan(x) {
            let d = f64_sub(x, mean);
            squares = f64_add(squares, f64_mul(weight_of(i), f64_mul(d, d)));
        }
    }
    set_field(segment, SQUARES, squares);
}

@compute @workgroup_size(64)
fn token_advantage_scale(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let segment = (group.y * groups.x + group.x) * 64u + thread;
    if segment >= args.n_segments || found[segment * STATE + STATUS] != 0u {
        return;
    }
    let freedom = f64_sub(field(segment, TOTAL), args.ddof);
    let variance = f64_div(field(segment, SQUARES), freedom);
    set_field(segment, SCALE, f64_add(f64_sqrt(variance), args.eps));
}

@compute @workgroup_size(64)
fn token_advantage_members(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let member = (group.y * groups.x + group.x) * 64u + thread;
    if member >= args.n_members {
        return;
    }
    // The last segment that begins at the member or before it; those without members come before it.
    var low = 0u;
    var high = args.n_segments;
    while low < high {
        let middle = low + (high - low) / 2u;
        if words[args.offsets + middle] <= member {
            low = middle + 1u;
        } else {
            high = middle;
        }
    }
    let segment = low - 1u;
    let to = args.n_segments * STATE + member;
    let x = value_of(member);
    if f64_is_nan(x) || found[segment * STATE + STATUS] != 0u {
        found[to] = 0u;
        return;
    }
    let total = field(segment, TOTAL);
    var advantage = f64_sub(x, field(segment, MEAN));
    var is_finite = true;
    if args.leave_one_out != 0u {
        advantage = f64_mul(advantage, f64_div(total, f64_sub(total, weight_of(member))));
    }
    if args.divide != 0u {
        let scale = field(segment, SCALE);
        is_finite = f64_is_finite(scale);
        advantage = f64_div(advantage, scale);
    }
    let narrow = f64_to_f32(advantage);
    found[to] = select(NAN_BITS, narrow, is_finite && is_finite_bits(narrow));
}

// The first piece that ends after a byte, or that starts at it or later.
fn first_piece(byte: u32, field_of_piece: u32) -> u32 {
    var low = 0u;
    var high = args.n_pieces;
    while low < high {
        let middle = low + (high - low) / 2u;
        let bound = words[args.pieces + middle * 3u + field_of_piece];
        // Starts are compared with the end of a token, ends with its start.
        let is_before = select(bound < byte, bound <= byte, field_of_piece == 1u);
        if is_before {
            low = middle + 1u;
        } else {
            high = middle;
        }
    }
    return low;
}

@compute @workgroup_size(64)
fn token_owners(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let token = (group.y * groups.x + group.x) * 64u + thread;
    if token >= args.n_members {
        return;
    }
    var start = args.first_byte;
    if token > 0u {
        start = words[args.byte_ends + token - 1u];
    }
    let end = words[args.byte_ends + token];
    var owner = NONE;
    if start < end {
        let first = first_piece(start, 1u);
        let last = first_piece(end, 0u);
        if last > first + args.most_pieces {
            owner = LEFT_TO_HOST;
        } else {
            var most_bytes = 0u;
            for (var i = first; i < last; i++) {
                let member = words[args.pieces + i * 3u + 2u];
                var n_bytes = 0u;
                for (var j = first; j < last; j++) {
                    let at = args.pieces + j * 3u;
                    if words[at + 2u] == member {
                        n_bytes += min(words[at + 1u], end) - max(words[at], start);
                    }
                }
                if n_bytes > most_bytes || (n_bytes == most_bytes && member < owner) {
                    most_bytes = n_bytes;
                    owner = member;
                }
            }
        }
    }
    found[token] = owner;
}
