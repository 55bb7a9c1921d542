#!/usr/bin/env python3
"""Checks lists of matching window pairs against rapidfuzz.

    python3 dev/peers/check_pairs.py DUMP.jsonl...      (needs rapidfuzz and numpy)
    python3 dev/peers/check_pairs.py --self-test

A dump has one JSON object a line: {"task", "eta", "tokens": [[code token ids of each candidate window]...],
"pairs": [[a, b]...], "types"?: [edit type of each candidate]}. The pairs must be exactly the unordered pairs of
distinct candidates (of equal type, where types are given) whose Indel similarity is at least eta.

rapidfuzz's cdist finds what lies near the threshold or above; each hit is decided again from the integer LCS by
2.0 * L / (m + n) >= eta in f64. Where rapidfuzz's own rounding, 1 - distance / (m + n), says otherwise, it is counted.
Memory: blocks of rows, at most about 64 MB of scores at a time.
"""

import argparse
import bisect
import json
import sys
import time

BLOCK_CELLS = 8_000_000
SLACK = 1e-6


def as_text(tokens, numbers):
    """The ids as a string: one character an id, surrogates left out. Equal ids give equal characters."""
    chars = []
    for token in tokens:
        number = numbers.setdefault(token, len(numbers) + 1)
        chars.append(chr(number if number < 0xD800 else number + 0x800))
    return "".join(chars)


def expected_pairs(texts, eta, workers):
    """Matching pairs of one type as {(a, b)} with a < b, pairs looked at, and those that rapidfuzz rounds differently."""
    import numpy
    from rapidfuzz import process
    from rapidfuzz.distance import Indel, LCSseq

    order = sorted(range(len(texts)), key=lambda i: len(texts[i]))
    lengths = [len(texts[i]) for i in order]
    found, n_seen, n_rounded = set(), 0, 0
    row = 0
    while row < len(order):
        # A text of m tokens matches none longer than m (2 - eta) / eta.
        last = min(len(order), row + 256)
        end = bisect.bisect_right(lengths, lengths[last - 1] * (2 - eta) / eta + 1)
        last = min(last, row + max(1, BLOCK_CELLS // (end - row)))
        queries = [texts[i] for i in order[row:last]]
        choices = [texts[i] for i in order[row:end]]
        scores = process.cdist(
            queries,
            choices,
            scorer=Indel.normalized_similarity,
            score_cutoff=max(0.0, eta - SLACK),
            dtype=numpy.float64,
            workers=workers,
        )
        n_seen += scores.size
        for i, j in zip(*numpy.nonzero(scores >= eta - SLACK)):
            if j <= i:
                continue
            a, b = order[row + i], order[row + j]
            total = len(texts[a]) + len(texts[b])
            lcs = LCSseq.similarity(texts[a], texts[b])
            matches = total == 0 or 2.0 * lcs / total >= eta
            n_rounded += matches != (Indel.normalized_similarity(texts[a], texts[b]) >= eta)
            if matches:
                found.add((min(a, b), max(a, b)))
        row = last
    return found, n_seen, n_rounded


def check(dump, workers):
    """Complaints about one task, and a line about it."""
    began = time.monotonic()
    tokens, eta = dump["tokens"], dump["eta"]
    types = dump.get("types") or [0] * len(tokens)
    complaints = []
    if len(types) != len(tokens):
        return [f"{len(types)} types for {len(tokens)} candidates"], ""
    given = [(min(a, b), max(a, b)) for a, b in dump["pairs"]]
    said = set(given)
    if len(said) != len(given):
        complaints.append(f"{len(given) - len(said)} pairs stand twice")
    complaints += [f"pair {p} is out of range" for p in said if not 0 <= p[0] < p[1] < len(tokens)]
    numbers, expected, n_seen, n_rounded = {}, set(), 0, 0
    texts = [as_text(t, numbers) for t in tokens]
    for wanted in sorted(set(types)):
        members = [i for i, t in enumerate(types) if t == wanted]
        found, seen, rounded = expected_pairs([texts[i] for i in members], eta, workers)
        expected |= {(members[a], members[b]) for a, b in found}
        n_seen, n_rounded = n_seen + seen, n_rounded + rounded
    for what, pairs in (("missing", expected - said), ("too much", said - expected)):
        if pairs:
            complaints.append(f"{len(pairs)} pairs {what}, such as {sorted(pairs)[:5]}")
    took = time.monotonic() - began
    line = f"{len(tokens)} candidates, {len(expected)} pairs at eta {eta}, {n_rounded} rounded otherwise by rapidfuzz"
    return complaints, f"{line}; {n_seen} cells in {took:.1f} s"


def self_test():
    """A made-up task whose pairs come from a plain dynamic program: it passes, and each wrong list is caught."""
    import random

    def lcs(a, b):
        row = [0] * (len(b) + 1)
        for x in a:
            diagonal = 0
            for j, y in enumerate(b, 1):
                diagonal, row[j] = row[j], diagonal + 1 if x == y else max(row[j], row[j - 1])
        return row[-1]

    chance = random.Random(7)
    base = [[chance.randrange(70_000) for _ in range(n)] for n in (0, 1, 5, 10, 40)]
    tokens = [[chance.randrange(70_000) if chance.random() < 0.12 else t for t in base[i % 5]] for i in range(60)]
    types = [i % 2 for i in range(60)]
    for eta in (0.8, 0.9, 1.0):
        pairs = []
        for b in range(60):
            for a in range(b):
                total = len(tokens[a]) + len(tokens[b])
                if types[a] == types[b] and (total == 0 or 2.0 * lcs(tokens[a], tokens[b]) / total >= eta):
                    pairs.append([a, b])
        dump = {"task": "made up", "eta": eta, "tokens": tokens, "types": types, "pairs": pairs}
        lists = [(pairs, False), (pairs[1:], True), (pairs + [[0, 1]], True), (pairs + pairs[:1], True)]
        for given, is_wrong in lists:
            complaints, line = check({**dump, "pairs": given}, 1)
            assert bool(complaints) == is_wrong, (eta, complaints)
        print(f"eta {eta}: {len(pairs)} pairs, wrong lists caught; {line}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("dumps", nargs="*", help="JSON lines; - is standard input")
    parser.add_argument("--workers", type=int, default=1, help="threads of rapidfuzz; -1 is all")
    parser.add_argument("--self-test", action="store_true")
    options = parser.parse_args()
    if options.self_test:
        self_test()
        return 0
    if not options.dumps:
        parser.error("no dump given")
    failed = n_tasks = 0
    for name in options.dumps:
        with sys.stdin if name == "-" else open(name, encoding="utf-8") as lines:
            for line in lines:
                if not line.strip():
                    continue
                dump = json.loads(line)
                complaints, said = check(dump, options.workers)
                n_tasks += 1
                failed += bool(complaints)
                print(f"{'WRONG' if complaints else 'equal'}  {dump.get('task')}: {said}", flush=True)
                for complaint in complaints:
                    print(f"       {complaint}")
    print(f"{n_tasks} dumps, {failed} wrong")
    return 1 if failed or not n_tasks else 0


if __name__ == "__main__":
    sys.exit(main())
