// window_similarity: the LCS of all pairs of windows that can match, by bit vectors.
//
// Z holds a bit for each token of a pattern: the ones of Z below bit e count the LCS of the pattern's first e tokens with
// the text so far. With M the places of the text's next token in the pattern (Hyyro 2004, complemented):
//   U = M & ~Z,    Z' = (Z - U) & (Z | M)
// A word has 31 places; bit 31 of Z and M is 0, so bit 31 of a difference is its borrow from the word above.
//
// Shapes: a start is a run of lines; its rows are the windows that begin there, by length. The pattern is a start of the
// block, the text any start; a pair inside the block is walked once. `code` holds, each at its offset in Args: tokens;
// STARTS words for each start; the tokens of each row; the least LCS that matches for each sum of lengths; LIMITS words for
// each length. `table` holds for each pattern a table row for each symbol, then SIZE words (or `words`) for each table row.
// `found` gets the number of pairs, that of walks that are not at their end, then (row, row, LCS) of each pair, in any
// order.
// Dispatch: window_similarity_patterns, one workgroup of 64 threads for each pattern, a thread for each word;
// window_similarity_walk, one for each pattern and 64 texts, a thread for each text. SIZE is the words of a state, in
// registers; 0 keeps states in `table`, behind the patterns, so that a walk can be interrupted and resumed.
// Moves, for each token of text and pattern: 4 B of token and 4 B of its table row, and 4 B of M for each word; most of it
// from caches, since the threads of a workgroup share the pattern.

struct Args {
    n_patterns: u32,
    first_pattern: u32,
    n_texts: u32,
    first_text: u32,
    // First start of the block: texts from here to the pattern are walked as patterns.
    first_of_block: u32,
    // Words of a pattern's state, and of all that `table` has for a pattern.
    words: u32,
    table_words: u32,
    states: u32,
    n_symbols: u32,
    most_pairs: u32,
    starts: u32,
    rows: u32,
    least: u32,
    limits: u32,
    // Patterns in `table` before the first one.
    skipped: u32,
    // Workgroups for each pattern.
    text_groups: u32,
    // Turns of all loops of a thread: drivers end loops that go on for long, without a word.
    most_turns: u32,
    is_resumed: u32,
    unused_0: u32,
    unused_1: u32,
}

@group(0) @binding(0) var<uniform> args: Args;
@group(0) @binding(1) var<storage, read> code: array<u32>;
// For each token of the patterns: the table row of its symbol; the highest bit at the first of a symbol.
@group(0) @binding(2) var<storage, read> pattern_rows: array<u32>;
@group(0) @binding(3) var<storage, read_write> table: array<u32>;
@group(0) @binding(4) var<storage, read_write> found: array<atomic<u32>>;

const THREADS: u32 = 64u;
const WORD_TOKENS: u32 = 31u;
// Words of a start in `code`: first token, tokens, first row, end of its rows.
const STARTS: u32 = 4u;
// Words of a length: shortest and longest partner, least LCS with any partner.
const LIMITS: u32 = 3u;
const STATE_WORDS: u32 = max(SIZE, 1u);
// Words before the pairs.
const HEADER: u32 = 2u;
// Words before a state in `table`: the row of the text, and the tokens so far.
const CURSOR: u32 = 2u;
const FIRST_OF_SYMBOL: u32 = 0x80000000u;

struct Start {
    first_token: u32,
    n_tokens: u32,
    first_row: u32,
    end_row: u32,
}

fn start_of(number: u32) -> Start {
    let at = args.starts + number * STARTS;
    return Start(code[at], code[at + 1u], code[at + 2u], code[at + 3u]);
}

fn row_tokens(row: u32) -> u32 {
    return code[args.rows + row];
}

// Fills `table`, which is zeros: table row 0 stays so, for symbols that the pattern lacks.
@compute @workgroup_size(64)
fn window_similarity_patterns(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let pattern = group.y * groups.x + group.x;
    if pattern >= args.n_patterns {
        return;
    }
    let start = start_of(args.first_pattern + pattern);
    let of_pattern = pattern_rows[pattern];
    let table_at = pattern * args.table_words;
    let masks_at = table_at + args.n_symbols;
    for (var word = thread; word < args.words; word += THREADS) {
        let begin = word * WORD_TOKENS;
        let end = min(begin + WORD_TOKENS, start.n_tokens);
        for (var i = begin; i < end; i++) {
            let entry = pattern_rows[of_pattern + i];
            let row = entry & ~FIRST_OF_SYMBOL;
            if (entry & FIRST_OF_SYMBOL) != 0u {
                table[table_at + code[start.first_token + i]] = row;
            }
            table[masks_at + row * args.words + word] |= 1u << (i - begin);
        }
    }
}

var<private> state: array<u32, STATE_WORDS>;
var<private> state_at: u32;

fn n_words() -> u32 {
    if SIZE == 0u {
        return args.words;
    }
    return SIZE;
}

fn word_of(word: u32) -> u32 {
    if SIZE == 0u {
        return table[state_at + CURSOR + word];
    }
    return state[word];
}

fn set_word(word: u32, value: u32) {
    if SIZE == 0u {
        table[state_at + CURSOR + word] = value;
    } else {
        state[word] = value;
    }
}

fn advance(masks: u32) {
    var borrow = 0u;
    for (var word = 0u; word < n_words(); word++) {
        let z = word_of(word);
        let m = table[masks + word];
        let d = z - (m & ~z) - borrow;
        borrow = d >> 31u;
        set_word(word, d & (z | m));
    }
}

fn add_pair(a: u32, b: u32, lcs: u32) {
    let at = atomicAdd(&found[0], 1u);
    if at < args.most_pairs {
        atomicStore(&found[HEADER + at * 3u], a);
        atomicStore(&found[HEADER + at * 3u + 1u], b);
        atomicStore(&found[HEADER + at * 3u + 2u], lcs);
    }
}

// The pattern's rows before `end_row` against a row of the text with `n` tokens.
fn read_rows(first_row: u32, end_row: u32, text_row: u32, n: u32) {
    let limits = args.limits + n * LIMITS;
    let shortest = code[limits];
    let longest = code[limits + 1u];
    var lcs_of_all = 0u;
    for (var word = 0u; word < n_words(); word++) {
        lcs_of_all += countOneBits(word_of(word));
    }
    if lcs_of_all < code[limits + 2u] {
        return;
    }
    var word = 0u;
    var before = 0u;
    for (var row = first_row; row < end_row; row++) {
        let m = row_tokens(row);
        if m > longest {
            return;
        }
        while word < m / WORD_TOKENS {
            before += countOneBits(word_of(word));
            word++;
        }
        if m < shortest {
            continue;
        }
        var lcs = before;
        let rest = m % WORD_TOKENS;
        if rest != 0u {
            lcs += countOneBits(word_of(word) & ((1u << rest) - 1u));
        }
        if lcs >= code[args.least + m + n] {
            add_pair(row, text_row, lcs);
        }
    }
}

@compute @workgroup_size(64)
fn window_similarity_walk(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let number = group.y * groups.x + group.x;
    let pattern = number / args.text_groups;
    let text_at = number % args.text_groups * THREADS + thread;
    if pattern >= args.n_patterns || text_at >= args.n_texts {
        return;
    }
    let a = args.first_pattern + pattern;
    let b = args.first_text + text_at;
    if b >= args.first_of_block && b < a {
        return;
    }
    let start = start_of(a);
    let text = start_of(b);
    let most = row_tokens(start.end_row - 1u);
    let longest = code[args.limits + most * LIMITS + 1u];
    // Too short for any row of the pattern.
    if row_tokens(text.end_row - 1u) < code[args.limits + row_tokens(start.first_row) * LIMITS] {
        return;
    }
    let table_at = (args.skipped + pattern) * args.table_words;
    let masks_at = table_at + args.n_symbols;
    var n = 0u;
    var row = text.first_row;
    if SIZE == 0u {
        state_at = args.states + (pattern * args.n_texts + text_at) * (CURSOR + args.words);
        if args.is_resumed != 0u {
            row = table[state_at];
            n = table[state_at + 1u];
        } else {
            for (var word = 0u; word < args.words; word++) {
                set_word(word, 0u);
            }
        }
    }
    var turns = 0u;
    for (; row < text.end_row; row++) {
        let end = row_tokens(row);
        if end > longest {
            break;
        }
        // The host has seen to it that a walk in registers is short enough.
        let turns_to_read = 2u * args.words + start.end_row - start.first_row;
        while n < end && (SIZE != 0u || turns < args.most_turns) {
            turns += args.words + 1u;
            let table_row = table[table_at + code[text.first_token + n]];
            // A symbol that the pattern lacks leaves the state as it is.
            if table_row != 0u {
                advance(masks_at + table_row * args.words);
            }
            n++;
        }
        if SIZE == 0u && (n < end || turns >= args.most_turns) {
            table[state_at] = row;
            table[state_at + 1u] = n;
            atomicAdd(&found[1], 1u);
            return;
        }
        turns += turns_to_read;
        // Inside a start, a window is compared with those that are shorter.
        let end_row = select(start.end_row, row, a == b);
        read_rows(start.first_row, end_row, row, n);
    }
    if SIZE == 0u {
        table[state_at] = text.end_row;
    }
}
