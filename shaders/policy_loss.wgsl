// policy_loss: loss, gradient and metrics from log-probs and advantages.
//
//   share_i = w_i / denominator
//   loss    = sum_i share_i sum_t m (rho l(r, A) + beta KL - c H)        r = exp(logp - old), or that of the row
//   grad_t  = share_i u_t (rho dl/dlogp + beta dKL/dlogp)                u: gradient from above
//
// src/reference/loss.rs is the specification; formulas in docs/method.md.
//
// Shapes: a tile is neighbouring tokens of one or more rows; a piece is at most 1024 tokens of a row. `words` holds the
// arrays of the tile one after the other, each at its offset in Args: f32, bf16 or f16, the mask as bytes, PIECE words
// for each piece, three for each span. `found` gets the gradients, then the sums of each piece, which the host adds in f64.
// Dispatch: one workgroup of 64 threads for each piece; neighbouring threads have neighbouring tokens.
// Moves, for each token: 2 or 4 B each of logp, old, advantage (dense), reference, rollout, entropy, 1 B of mask, 4 B of
// each output.

struct Args {
    n_pieces: u32,
    log_prob: u32,
    old: u32,
    reference: u32,
    rollout: u32,
    entropy: u32,
    advantage: u32,
    upstream: u32,
    mask: u32,
    pieces: u32,
    spans: u32,
    grad_log_prob: u32,
    grad_entropy: u32,
    token_loss: u32,
    sums: u32,
    log_prob_dtype: u32,
    old_dtype: u32,
    reference_dtype: u32,
    rollout_dtype: u32,
    entropy_dtype: u32,
    advantage_dtype: u32,
    surrogate: u32,
    ratio: u32,
    kl: u32,
    correction: u32,
    weight_of_row: u32,
    poisons: u32,
    has_dual: u32,
    upstream_value: f32,
    least: f32,
    most: f32,
    dual: f32,
    max_log_ratio: f32,
    beta: f32,
    entropy_coef: f32,
    least_weight: f32,
    most_weight: f32,
    unused_0: u32,
    unused_1: u32,
    unused_2: u32,
}

// What the tokens of a row share.
struct Row {
    // w_i / denominator.
    share: f32,
    log_ratio: f32,
    log_weight: f32,
    // Gradient that each token has from the row's ratio.
    shared_grad: f32,
    // Every gradient of the row is NaN.
    is_poisoned: u32,
    // A^E, where advantages are not dense.
    episode: f32,
}

@group(0) @binding(0) var<uniform> args: Args;
@group(0) @binding(1) var<storage, read> words: array<u32>;
@group(0) @binding(2) var<storage, read> rows: array<Row>;
@group(0) @binding(3) var<storage, read_write> found: array<u32>;

// Numbers of the enums in src/backend/wgpu/policy_loss.rs.
const CLIP: u32 = 0u;
const CISPO: u32 = 1u;
const RATIO_TOKEN: u32 = 0u;
const RATIO_SEQUENCE: u32 = 1u;
const K1: u32 = 0u;
const K2: u32 = 1u;
const K3: u32 = 2u;
const K1_STRAIGHT_THROUGH: u32 = 3u;
const K3_STRAIGHT_THROUGH: u32 = 4u;
const UNCORRECTED: u32 = 0u;
const MASKED: u32 = 2u;

const THREADS: u32 = 64u;
// Words of a piece in `words`: row, first token in the tile, tokens, first span, spans.
const PIECE: u32 = 5u;
const LARGEST_KL_EXPONENT: f32 = 20.0;
// SAPO's gate is constant beyond this in f32.
const LARGEST_GATE: f32 = 80.0;

// Fields of the sums of a piece, in the order of `Sums` on the host; the last four are bounds, least and most in turn.
const N_FIELDS: u32 = 19u;
const FIRST_BOUND: u32 = 15u;

var<workgroup> parts: array<f32, 1216>;

struct Piece {
    row: u32,
    start: u32,
    len: u32,
    first_span: u32,
    n_spans: u32,
}

fn piece_of(number: u32) -> Piece {
    let at = args.pieces + number * PIECE;
    return Piece(words[at], words[at + 1u], words[at + 2u], words[at + 3u], words[at + 4u]);
}

fn is_live(at: u32) -> bool {
    return ((words[args.mask + at / 4u] >> (at % 4u * 8u)) & 255u) != 0u;
}

// The bits of a value as f32.
fn load(array: u32, dtype: u32, at: u32) -> u32 {
    if dtype == 0u {
        return words[array + at];
    }
    let short = (words[array + at / 2u] >> (at % 2u * 16u)) & 0xffffu;
    return select(widened(short), short << 16u, dtype == 1u);
}

// What is given for a token; 0 in place of what is not finite.
struct Token {
    log_prob: f32,
    old: f32,
    reference: f32,
    rollout: f32,
    entropy: f32,
    advantage: f32,
    is_unscored: bool,
    is_finite: bool,
}

fn finite_or_zero(bits: u32, is_finite: ptr<function, bool>) -> f32 {
    if is_finite_bits(bits) {
        return bitcast<f32>(bits);
    }
    *is_finite = false;
    return 0.0;
}

fn advantage_of(piece: Piece, i: u32) -> u32 {
    if args.advantage != ABSENT {
        return load(args.advantage, args.advantage_dtype, piece.start + i);
    }
    var advantage = rows[piece.row].episode;
    // The last span that starts at the token or before it; positions count from the start of the piece.
    var low = 0u;
    var high = piece.n_spans;
    while low < high {
        let middle = low + (high - low) / 2u;
        if words[args.spans + (piece.first_span + middle) * 3u] <= i {
            low = middle + 1u;
        } else {
            high = middle;
        }
    }
    if low > 0u {
        let span = args.spans + (piece.first_span + low - 1u) * 3u;
        if i < words[span + 1u] {
            advantage += bitcast<f32>(words[span + 2u]);
        }
    }
    return bitcast<u32>(advantage);
}

fn token_at(piece: Piece, i: u32) -> Token {
    let at = piece.start + i;
    var token: Token;
    var is_finite = true;
    token.log_prob = finite_or_zero(load(args.log_prob, args.log_prob_dtype, at), &is_finite);
    token.old = token.log_prob;
    if args.old != ABSENT {
        token.old = finite_or_zero(load(args.old, args.old_dtype, at), &is_finite);
    }
    if args.reference != ABSENT {
        token.reference = finite_or_zero(load(args.reference, args.reference_dtype, at), &is_finite);
    }
    if args.rollout != ABSENT {
        let bits = load(args.rollout, args.rollout_dtype, at);
        token.is_unscored = is_nan_bits(bits);
        if !token.is_unscored {
            token.rollout = finite_or_zero(bits, &is_finite);
        }
    }
    if args.entropy != ABSENT {
        token.entropy = finite_or_zero(load(args.entropy, args.entropy_dtype, at), &is_finite);
    }
    token.advantage = finite_or_zero(advantage_of(piece, i), &is_finite);
    token.is_finite = is_finite;
    return token;
}

fn joined(field: u32, a: f32, b: f32) -> f32 {
    if field < FIRST_BOUND {
        return a + b;
    }
    let is_least = (field - FIRST_BOUND) % 2u == 0u;
    return select(b, a, is_least == (a < b));
}

// Joins the first fields of all threads in a fixed order, and writes them where the piece's sums are.
fn write_sums(thread: u32, number: u32, n_fields: u32) {
    for (var n = THREADS / 2u; n > 0u; n /= 2u) {
        workgroupBarrier();
        for (var at = thread; at < n_fields * n; at += THREADS) {
            let field = at / n;
            let to = field * THREADS + at % n;
            parts[to] = joined(field, parts[to], parts[to + n]);
        }
    }
    workgroupBarrier();
    if thread < n_fields {
        found[args.sums + number * n_fields + thread] = bitcast<u32>(parts[thread * THREADS]);
    }
}

fn weighs_by_row() -> bool {
    return args.correction != UNCORRECTED && args.weight_of_row != 0u;
}

// Where something is that of a row: tokens whose values are all finite, and the sums of their log-ratios and log-weights.
@compute @workgroup_size(64)
fn policy_loss_logs(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let number = group.y * groups.x + group.x;
    if number >= args.n_pieces {
        return;
    }
    let piece = piece_of(number);
    var n_finite = 0.0;
    var log_ratio = 0.0;
    var log_weight = 0.0;
    for (var i = thread; i < piece.len; i += THREADS) {
        if !is_live(piece.start + i) {
            continue;
        }
        let token = token_at(piece, i);
        if token.is_finite {
            n_finite += 1.0;
            log_ratio += token.log_prob - token.old;
            if args.rollout != ABSENT && !token.is_unscored {
                log_weight += token.old - token.rollout;
            }
        }
    }
    parts[thread] = n_finite;
    parts[THREADS + thread] = log_ratio;
    parts[2u * THREADS + thread] = log_weight;
    write_sums(thread, number, 3u);
}

struct Term {
    value: f32,
    through: f32,
    direct: f32,
    is_low: bool,
    is_high: bool,
    is_dual: bool,
}

fn surrogate(r: f32, log_prob: f32, a: f32) -> Term {
    var term: Term;
    if args.surrogate == CLIP {
        let plain = -r * a;
        let held = -hold(r, args.least, args.most) * a;
        let at_bound = plain < held;
        term.value = select(plain, held, at_bound);
        let most = args.dual * -a;
        term.is_dual = args.has_dual != 0u && a < 0.0 && most < term.value;
        term.value = select(term.value, most, term.is_dual);
        term.through = select(plain, 0.0, at_bound || term.is_dual);
        term.is_low = at_bound && !term.is_dual && a < 0.0;
        term.is_high = at_bound && !term.is_dual && !(a < 0.0);
    } else if args.surrogate == CISPO {
        term.direct = -hold(r, args.least, args.most) * a;
        term.value = term.direct * log_prob;
        term.is_low = r < args.least;
        term.is_high = args.most < r;
    } else {
        let tau = select(args.most, args.least, a > 0.0);
        let e = exp_of(-hold(tau * (r - 1.0), -LARGEST_GATE, LARGEST_GATE));
        let gate = 1.0 / (1.0 + e);
        let four_a = -4.0 * a;
        term.value = four_a / tau * gate;
        // gate (1 - gate) without the cancellation of 1 - gate.
        term.through = four_a * (gate * (e * gate)) * r;
    }
    return term;
}

struct Estimate {
    value: f32,
    grad: f32,
}

fn kl_of(d: f32, ratio: f32) -> Estimate {
    let held = min(d, LARGEST_KL_EXPONENT);
    if args.kl == K1 {
        return Estimate(-d, 1.0);
    }
    if args.kl == K2 {
        return Estimate(0.5 * d * d, -d);
    }
    if args.kl == K1_STRAIGHT_THROUGH {
        return Estimate(-d, -d);
    }
    // Far below 0 the exponential is 0.
    let k3 = select(k3_of(max(held, -LARGEST_GATE)), -1.0 - held, held < -LARGEST_GATE);
    if args.kl == K3 {
        return Estimate(k3, -(held + k3));
    }
    if args.kl == K3_STRAIGHT_THROUGH {
        return Estimate(k3, -d);
    }
    return Estimate(ratio * k3, -ratio * held);
}

// What a token gives.
struct Outcome {
    value: f32,
    // Without and with the scale of row and upstream.
    own_grad: f32,
    grad: f32,
    scale: f32,
    is_good: bool,
    term: Term,
    difference: f32,
    own_log_ratio: f32,
    ratio: f32,
    kl: f32,
    rho: f32,
    is_bound: bool,
}

// `is_ratio_pass`: only the gradient that goes through the row's ratio is wanted.
fn outcome_of(token: Token, row: Row, at: u32, is_ratio_pass: bool) -> Outcome {
    var outcome: Outcome;
    outcome.difference = token.log_prob - token.old;
    outcome.own_log_ratio = hold(outcome.difference, -args.max_log_ratio, args.max_log_ratio);
    let own_ratio = exp_of(outcome.own_log_ratio);
    outcome.ratio = own_ratio;
    if args.ratio != RATIO_TOKEN {
        outcome.ratio = exp_of(row.log_ratio);
    }
    var term = surrogate(outcome.ratio, token.log_prob, token.advantage);
    outcome.rho = 1.0;
    if args.rollout != ABSENT {
        let own = hold(token.old - token.rollout, -args.max_log_ratio, args.max_log_ratio);
        let log_rho = select(own, 0.0, token.is_unscored);
        outcome.rho = exp_of(select(log_rho, row.log_weight, weighs_by_row()));
        if args.correction != UNCORRECTED {
            let is_over = outcome.rho > args.most_weight;
            let is_masked = args.correction == MASKED;
            outcome.is_bound = is_over || (is_masked && outcome.rho < args.least_weight);
            let held = select(args.most_weight, 0.0, is_masked);
            let weight = select(outcome.rho, held, outcome.is_bound);
            term.value *= weight;
            term.through *= weight;
            term.direct *= weight;
        }
    }
    if args.reference != ABSENT {
        let estimate = kl_of(token.reference - token.log_prob, own_ratio);
        outcome.kl = estimate.value;
        term.value = fma(args.beta, estimate.value, term.value);
        term.direct = fma(args.beta, estimate.grad, term.direct);
    }
    term.value = fma(-args.entropy_coef, token.entropy, term.value);
    outcome.term = term;
    outcome.value = term.value;
    outcome.own_grad = select(term.direct, term.through, is_ratio_pass);
    if !is_ratio_pass && args.ratio != RATIO_SEQUENCE {
        outcome.own_grad = term.through + term.direct;
    }
    outcome.is_good = token.is_finite && is_finite_bits(bitcast<u32>(outcome.value))
        && is_finite_bits(bitcast<u32>(outcome.own_grad));
    outcome.scale = row.share * args.upstream_value;
    if args.upstream != ABSENT {
        outcome.scale = row.share * bitcast<f32>(words[args.upstream + at]);
    }
    outcome.grad = fma(outcome.scale, outcome.own_grad, row.shared_grad);
    return outcome;
}

// Sequence-level ratios: the sum over a piece of the gradients by the row's log-ratio, and the tokens without one.
@compute @workgroup_size(64)
fn policy_loss_ratio(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let number = group.y * groups.x + group.x;
    if number >= args.n_pieces {
        return;
    }
    let piece = piece_of(number);
    let row = rows[piece.row];
    var through = 0.0;
    var n_bad = 0.0;
    for (var i = thread; i < piece.len; i += THREADS) {
        let at = piece.start + i;
        if is_live(at) {
            let outcome = outcome_of(token_at(piece, i), row, at, true);
            if outcome.is_good {
                through += outcome.grad;
            } else {
                n_bad += 1.0;
            }
        }
    }
    parts[thread] = through;
    parts[THREADS + thread] = n_bad;
    write_sums(thread, number, 2u);
}

fn write_token(at: u32, grad: u32, grad_entropy: u32, token_loss: u32) {
    if args.grad_log_prob != ABSENT {
        found[args.grad_log_prob + at] = grad;
    }
    if args.grad_entropy != ABSENT {
        found[args.grad_entropy + at] = grad_entropy;
    }
    if args.token_loss != ABSENT {
        found[args.token_loss + at] = token_loss;
    }
}

@compute @workgroup_size(64)
fn policy_loss_terms(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let number = group.y * groups.x + group.x;
    if number >= args.n_pieces {
        return;
    }
    let piece = piece_of(number);
    let row = rows[piece.row];
    var sums: array<f32, N_FIELDS>;
    sums[15] = LARGEST;
    sums[16] = -LARGEST;
    sums[17] = LARGEST;
    sums[18] = -LARGEST;
    for (var i = thread; i < piece.len; i += THREADS) {
        let at = piece.start + i;
        if !is_live(at) {
            write_token(at, 0u, 0u, 0u);
            continue;
        }
        let token = token_at(piece, i);
        let outcome = outcome_of(token, row, at, false);
        if !outcome.is_good {
            let otherwise = select(0u, NAN_BITS, args.poisons != 0u);
            let of_entropy = select(otherwise, 0u, args.entropy == ABSENT);
            write_token(at, otherwise, of_entropy, otherwise);
            sums[12] += 1.0;
            continue;
        }
        let grad = select(bitcast<u32>(outcome.grad), NAN_BITS, row.is_poisoned != 0u);
        let grad_entropy = select(-outcome.scale * args.entropy_coef, 0.0, args.entropy == ABSENT);
        write_token(at, grad, bitcast<u32>(grad_entropy), bitcast<u32>(row.share * outcome.value));
        sums[0] += outcome.value;
        sums[1] += 1.0;
        sums[2] -= outcome.difference;
        sums[3] += k3_of(outcome.own_log_ratio);
        sums[4] += outcome.ratio;
        sums[5] += outcome.kl;
        sums[6] += token.entropy;
        sums[9] += select(0.0, 1.0, outcome.term.is_low);
        sums[10] += select(0.0, 1.0, outcome.term.is_high);
        sums[11] += select(0.0, 1.0, outcome.term.is_dual);
        sums[15] = min(sums[15], outcome.ratio);
        sums[16] = max(sums[16], outcome.ratio);
        if args.rollout != ABSENT {
            sums[7] += outcome.rho;
            sums[8] = fma(outcome.rho, outcome.rho, sums[8]);
            sums[13] += select(0.0, 1.0, outcome.is_bound);
            sums[14] += select(0.0, 1.0, token.is_unscored);
            sums[17] = min(sums[17], outcome.rho);
            sums[18] = max(sums[18], outcome.rho);
        }
    }
    for (var field = 0u; field < N_FIELDS; field++) {
        parts[field * THREADS + thread] = sums[field];
    }
    write_sums(thread, number, N_FIELDS);
}
