// anchor_gain: gain(c) = sum over ranges of c, sum over units u of a range, of max(0, gs(c) - best(u)), in f64.
//
// The order of summation is that of src/backend/cpu/anchor_gain.rs: units of a range, then ranges, first to last.
//
// Shapes: `words` holds, each at its offset in Args: offsets of the candidates, two words for each range of units, and
// gs as f64. `best` has an f64 for each unit. `found` has STATE words for each candidate: where it is, zeros at first;
// its first two words become the gain.
// Dispatch: a thread for each candidate, 64 to a workgroup, as often as the candidate with the most units needs it.
// Moves, for each unit of a candidate: 8 B of best, from caches where candidates share units; for each range 8 B.

struct Args {
    n_candidates: u32,
    offsets: u32,
    ranges: u32,
    gs: u32,
    // Turns of all loops of a thread in a dispatch.
    most_turns: u32,
    unused_0: u32,
    unused_1: u32,
    unused_2: u32,
}

@group(0) @binding(0) var<uniform> args: Args;
@group(0) @binding(1) var<storage, read> words: array<u32>;
@group(0) @binding(2) var<storage, read> best: array<vec2<u32>>;
@group(0) @binding(3) var<storage, read_write> found: array<vec2<u32>>;

// Pairs of words: the sum, the part of the current range, and the range and place in it.
const STATE: u32 = 3u;

@compute @workgroup_size(64)
fn anchor_gain(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let candidate = (group.y * groups.x + group.x) * 64u + thread;
    if candidate >= args.n_candidates {
        return;
    }
    let state = candidate * STATE;
    var sum = found[state];
    var part = found[state + 1u];
    let place = found[state + 2u];
    let first = words[args.offsets + candidate];
    let end_range = words[args.offsets + candidate + 1u];
    let gs = vec2<u32>(words[args.gs + candidate * 2u], words[args.gs + candidate * 2u + 1u]);
    var range = first + place.x;
    var i = place.y;
    var turns = 0u;
    while range < end_range && turns < args.most_turns {
        let start = words[args.ranges + range * 2u];
        let end = words[args.ranges + range * 2u + 1u];
        while start + i < end && turns < args.most_turns {
            let covered = best[start + i];
            if f64_less(covered, gs) {
                part = f64_add(part, f64_sub(gs, covered));
            }
            i++;
            turns++;
        }
        if start + i >= end {
            sum = f64_add(sum, part);
            part = vec2<u32>(0u, 0u);
            i = 0u;
            range++;
            turns++;
        }
    }
    found[state] = sum;
    found[state + 1u] = part;
    found[state + 2u] = vec2<u32>(range - first, i);
}
