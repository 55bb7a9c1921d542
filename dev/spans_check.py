#!/usr/bin/env python3
"""Checks the credit of every row by brute force, from the byte spans alone.

    python3 dev/spans_check.py OUTPUT.jsonl INPUT.jsonl...

INPUT is hunkwise's own JSONL or verl's. For each row with tokens the dense vector is computed again: a trained token
belongs to the member with which it shares most bytes (counted one by one), ties to the earlier; its advantage is the
episode's plus the member's, in f32; a token outside the mask has 0. This must equal the token spans and the dense
advantages of the output. Also: no input row is lost, spans are sorted, disjoint and inside the text, and nothing is
NaN. Standard library only.
"""

import argparse
import json
import math
import struct
import sys
from collections import Counter

# Names in the output, in one place.
TASK, TRAJECTORY, TURN = "task", "trajectory", "turn"
EPISODE, DENSE = "episode", "advantages"
BYTE_SPANS, TOKEN_SPANS = "byte_spans", "token_spans"
START, END, ADVANTAGE, ANCHOR, MEMBER = "start", "end", "advantage", "anchor", "member"


def f32(value):
    return struct.unpack("<f", struct.pack("<f", value))[0]


def read_inputs(names):
    """Input rows by (task, trajectory, turn): (text, token ends or None, mask or None)."""
    rows = {}
    for name in names:
        with open(name, encoding="utf-8", newline="\n") as lines:
            for line in lines:
                if not line.strip():
                    continue
                row = json.loads(line)
                if "uid" in row:
                    task, trajectory, turn = row["uid"].rsplit("_", 2)
                    if row.get("step") is not None:
                        task = f"{row['step']}/{task}"
                    rows[task, trajectory, int(turn)] = (row["output"].encode(), None, None)
                    continue
                text = row["text"].encode("utf-8", "surrogatepass")
                ends = row.get("token_ends")
                mask = row.get("mask")
                if ends is not None and mask is None:
                    mask = default_mask(row, ends, len(text))
                rows[str(row["task"]), str(row.get("trajectory")), row.get("turn") or 0] = (text, ends, mask)
    return rows


def default_mask(row, ends, size):
    """Without a mask every token inside a turn is trained."""
    turns = [(t["start"], t["end"]) for t in row.get("turns") or [{"start": 0, "end": size}]]
    starts = [0, *ends[:-1]]
    return [int(any(a <= s and e <= b for a, b in turns)) for s, e in zip(starts, ends)]


def check_spans(spans, limit, what):
    complaints, last = [], 0
    for span in spans:
        if not last <= span[START] < span[END] <= limit:
            complaints.append(f"{what} {span} is empty, out of order or beyond {limit}")
        if not math.isfinite(span[ADVANTAGE]):
            complaints.append(f"{what} {span} is not finite")
        last = max(last, span[END])
    return complaints


def owners(text, ends, byte_spans):
    """For each token the index of the span that owns it, or None."""
    owner_of_byte = [None] * len(text)
    members = []
    for index, span in enumerate(byte_spans):
        # Pieces of one member share its name; without names, its anchor and advantage.
        key = (span.get(MEMBER), span.get(ANCHOR), span[ADVANTAGE])
        if key not in members:
            members.append(key)
        for byte in range(span[START], span[END]):
            owner_of_byte[byte] = (members.index(key), index)
    owned, start = [], 0
    for end in ends:
        shared, first = Counter(), {}
        for byte in range(start, end):
            if owner_of_byte[byte] is not None:
                member, index = owner_of_byte[byte]
                shared[member] += 1
                first.setdefault(member, index)
        best = min(shared, key=lambda member: (-shared[member], member), default=None)
        owned.append(None if best is None else first[best])
        start = end
    return owned


def check_row(row, given):
    text, ends, mask = given
    byte_spans = row.get(BYTE_SPANS) or []
    complaints = check_spans(byte_spans, len(text), "byte span")
    episode = row[EPISODE]
    if not math.isfinite(episode):
        complaints.append("the episode advantage is not finite")
    if ends is None:
        # Text alone: nothing can be said of tokens.
        return complaints + [f"{name} without tokens" for name in (TOKEN_SPANS, DENSE) if row.get(name)]
    if complaints:
        return complaints
    expected, expected_anchor = [], []
    for owner, trained in zip(owners(text, ends, byte_spans), mask):
        extra = 0.0 if owner is None else byte_spans[owner][ADVANTAGE]
        expected.append(f32(f32(episode) + f32(extra)) if trained else 0.0)
        expected_anchor.append(byte_spans[owner].get(ANCHOR) if owner is not None and trained else None)
    token_spans = row.get(TOKEN_SPANS)
    if token_spans is None:
        complaints.append("no token spans though the tokens are known")
    else:
        complaints += check_spans(token_spans, len(ends), "token span")
        spread, anchors = [f32(episode) if trained else 0.0 for trained in mask], [None] * len(ends)
        for span in token_spans:
            for token in range(span[START], min(span[END], len(ends))):
                if not mask[token]:
                    complaints.append(f"token {token} is outside the mask but in span {span}")
                spread[token] = f32(f32(episode) + f32(span[ADVANTAGE]))
                anchors[token] = span.get(ANCHOR)
        complaints += compare("token spans", spread, expected)
        complaints += compare("anchors of token spans", anchors, expected_anchor)
    dense = row.get(DENSE)
    if dense is not None:
        complaints += compare("dense advantages", [f32(value) for value in dense], expected)
    return complaints


def compare(what, got, expected):
    if len(got) != len(expected):
        return [f"{what}: {len(got)} entries for {len(expected)} tokens"]
    wrong = [i for i, (a, b) in enumerate(zip(got, expected)) if a != b]
    if not wrong:
        return []
    i = wrong[0]
    return [f"{what}: {len(wrong)} tokens differ, first token {i}: {got[i]!r} instead of {expected[i]!r}"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("output")
    parser.add_argument("inputs", nargs="+")
    parser.add_argument("--may-lose", type=int, default=0, help="input rows that may be absent (flagged ones)")
    options = parser.parse_args()
    given = read_inputs(options.inputs)
    count, n_wrong, seen = Counter(), 0, set()
    with open(options.output, encoding="utf-8", newline="\n") as lines:
        for number, line in enumerate(lines, 1):
            row = json.loads(line)
            key = (str(row[TASK]), str(row[TRAJECTORY]), row.get(TURN) or 0)
            complaints = [f"row {key} stands twice"] if key in seen else []
            seen.add(key)
            if key not in given:
                complaints.append(f"row {key} is not in the input")
            else:
                complaints += check_row(row, given[key])
                count["rows with tokens"] += given[key][1] is not None
                count["tokens"] += len(given[key][1] or ())
            count["rows"] += 1
            count["rows with credit"] += bool(row.get(BYTE_SPANS))
            count["byte spans"] += len(row.get(BYTE_SPANS) or ())
            n_wrong += bool(complaints)
            for complaint in complaints[:4] if n_wrong <= 20 else ():
                print(f"{options.output}:{number} {key}: {complaint}")
    lost = sorted(given.keys() - seen)
    if len(lost) > options.may_lose:
        print(f"{len(lost)} input rows are not in the output, such as {lost[:3]}")
    print(", ".join(f"{n} {what}" for what, n in count.items()) + f"; {n_wrong} rows wrong, {len(lost)} lost")
    return 1 if n_wrong or len(lost) > options.may_lose or not count["rows"] else 0


if __name__ == "__main__":
    sys.exit(main())
