#!/usr/bin/env python3
"""Checks lists of matching window pairs against rapidfuzz.

    python3 dev/peers/check_pairs.py DUMP.jsonl...      (needs rapidfuzz and numpy)
    python3 dev/peers/check_pairs.py --self-test

A dump has one JSON object a line: {"task", "eta", "tokens": [[code token ids of each candidate window]...],
"pairs": [[a, b]...], "types"?: [edit type of each candidate]}. The pairs must be exactly the unordered pairs of
distinct candidates (of equal type, where types are given) whose Indel similarity is at least eta.

rapidfuzz's cdist finds what lies near the threshold or above; each hit is decided again from its LCS L, the integer
behind the score, by 2.0 * L / (m + n) >= eta in f64. Where rapidfuzz's own rounding, 1 - distance / (m + n), says
otherwise, it is counted.
Memory: blocks of rows, at most about 64 MB of scores at a time.
"""

import argparse
import bisect
import json
import sys
import time

import numpy
from rapidfuzz import process
from rapidfuzz.distance import Indel

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
    """Matching pairs of one type as rows a < b and LCS, pairs looked at, and how many rapidfuzz rounds differently."""
    order = numpy.array(sorted(range(len(texts)), key=lambda i: len(texts[i])), dtype=numpy.int64)
    lengths = numpy.array([len(texts[i]) for i in order])
    found, n_seen, n_rounded = [], 0, 0
    row = 0
    while row < len(order):
        # A text of m tokens matches none longer than m (2 - eta) / eta.
        last = min(len(order), row + 256)
        end = bisect.bisect_right(lengths, lengths[last - 1] * (2 - eta) / eta + 1)
        last = min(last, row + max(1, BLOCK_CELLS // (end - row)))
        scores = process.cdist(
            [texts[i] for i in order[row:last]],
            [texts[i] for i in order[row:end]],
            scorer=Indel.normalized_similarity,
            score_cutoff=max(0.0, eta - SLACK),
            dtype=numpy.float64,
            workers=workers,
        )
        n_seen += scores.size
        i, j = numpy.nonzero(numpy.triu(scores >= eta - SLACK, 1))
        totals = lengths[row + i] + lengths[row + j]
        doubled = scores[i, j] * totals / 2.0
        lcs = numpy.rint(doubled)
        assert numpy.all(abs(doubled - lcs) < 1e-6), "a score that is no LCS over a length"
        matches = (totals == 0) | (2.0 * lcs / numpy.maximum(totals, 1) >= eta)
        n_rounded += int(numpy.sum(matches != (scores[i, j] >= eta)))
        a, b = order[row + i[matches]], order[row + j[matches]]
        found.append(numpy.stack([numpy.minimum(a, b), numpy.maximum(a, b), lcs[matches].astype(numpy.int64)]))
        row = last
    return numpy.concatenate([numpy.zeros((3, 0), numpy.int64), *found], axis=1), n_seen, n_rounded


def check(dump, workers):
    """Complaints about one task, and a line about it."""
    began = time.monotonic()
    tokens, eta = dump["tokens"], dump["eta"]
    n = len(tokens)
    types = dump.get("types") or [0] * n
    if len(types) != n:
        return [f"{len(types)} types for {n} candidates"], ""
    given = numpy.array(dump["pairs"], dtype=numpy.int64).reshape(-1, 2)
    if given.size and (given.min() < 0 or given.max() >= n or numpy.any(given[:, 0] == given[:, 1])):
        return ["a pair is out of range or pairs a candidate with itself"], ""
    given.sort(axis=1)
    codes = given[:, 0] * n + given[:, 1]
    said = numpy.unique(codes)
    complaints = [f"{len(codes) - len(said)} pairs stand twice"] if len(said) != len(codes) else []
    numbers, parts, n_seen, n_rounded = {}, [], 0, 0
    texts = [as_text(t, numbers) for t in tokens]
    for wanted in sorted(set(types)):
        members = numpy.array([i for i, t in enumerate(types) if t == wanted])
        found, seen, rounded = expected_pairs([texts[i] for i in members], eta, workers)
        parts.append(members[found[0]] * n + members[found[1]])
        n_seen, n_rounded = n_seen + seen, n_rounded + rounded
    expected = numpy.unique(numpy.concatenate([numpy.zeros(0, numpy.int64), *parts]))
    for what, pairs in (("missing", numpy.setdiff1d(expected, said)), ("too much", numpy.setdiff1d(said, expected))):
        if len(pairs):
            complaints.append(f"{len(pairs)} pairs {what}, such as {[divmod(int(p), n) for p in pairs[:5]]}")
    took = time.monotonic() - began
    line = f"{n} candidates, {len(expected)} pairs at eta {eta}, {n_rounded} rounded otherwise by rapidfuzz"
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
