"""difflib's opcodes, and the authors' grouping of them, against ours: results first, then both in turns.

python benches/peers/opcodes.py FILE.jsonl [--task ID ...] [--verl-code CHECKOUT] [--made-up ROWSxLINES ...]

Needs the Python package (`maturin develop --release -m python/Cargo.toml`) and NumPy. A line of FILE has `task` and
`edits` with their `text`; a task's root diffs are those texts without comments and blank lines, one a row. With
a checkout of verl-code 74d09ed its grouping of all pairs is the peer, without one difflib is called for the same pairs.
"""

import argparse
import difflib
import json
import random
import sys
import time
from pathlib import Path

import numpy
import timing

from hunkwise import _hunkwise, verl_code

SETTINGS = (0.8, 8.0, 8.0, "saturating", "saturating", 64, 1, -1)


def normalized(text):
    lines = (line.split(" #")[0].rstrip() for line in text.splitlines())
    return [line for line in lines if line.strip()]


def tasks_of(path):
    tasks = {}
    with open(path) as file:
        for row in map(json.loads, file):
            for edit in row.get("edits", []):
                lines = normalized(edit.get("text") or "")
                if lines:
                    tasks.setdefault(row["task"], []).append(lines)
    return tasks


def made_up(n_rows, n_lines):
    """Edited copies of a program whose lines come from Python's own library."""
    source = random.Random(5)
    lines = normalized(
        Path(random.__file__).read_text() + Path(json.__file__).read_text()
    )
    base = source.sample(lines, n_lines)
    rows = []
    for _ in range(n_rows):
        made = list(base)
        for _ in range(n_lines // 6):
            at = source.randrange(len(made))
            made[at : at + source.randrange(3)] = [
                source.choice(lines) for _ in range(source.randrange(3))
            ]
        rows.append(made)
    return rows


def roots(task):
    made = []
    for row, lines in enumerate(task):
        text = "\n".join(lines)
        made.append((row, "add", lines, text, (0, len(text)), (0, len(text) // 4 + 1)))
    return made


def snippets(task):
    """As the authors' collector gives them."""
    return [
        (row, 0, {"lines": lines, "source": text, "edit_type": edit_type, "origin": "root", "changed": True,
                  "char_start": chars[0], "char_end": chars[1], "token_start": tokens[0], "token_end": tokens[1]})
        for row, edit_type, lines, text, chars, tokens in roots(task)
    ]  # fmt: skip


def clock(run):
    began = time.perf_counter()
    run()
    return time.perf_counter() - began


def print_row(name, shape, hits, peer, timed):
    ratio = (
        f"{timed['ratio']:.0f} ({timed['ratio_min']:.0f} to {timed['ratio_max']:.0f})"
    )
    ours, theirs = timed["ours_seconds"] * 1e3, timed["peer_seconds"] * 1e3
    print(
        f"| {name} | {shape} | {hits} | {ours:.3g} ms | {peer} | {theirs:.4g} ms | {ratio} |",
        flush=True,
    )


def opcodes_row(name, task):
    pairs = [(a, b) for i, a in enumerate(task) for b in task[i + 1 :]]

    def theirs():
        return [
            difflib.SequenceMatcher(None, a, b, False).get_opcodes() for a, b in pairs
        ]

    wanted = theirs()
    offsets, opcodes = verl_code.opcodes_of_pairs(task, autojunk=False)
    found = [
        [(verl_code.TAGS[tag], *span) for tag, *span in row]
        for row in numpy.split(opcodes, offsets[1:-1])
    ]
    if [[(tag, *map(int, span)) for tag, *span in row] for row in found] != wanted:
        raise SystemExit(f"{name}: opcodes differ from difflib's")
    timed = timing.in_turns(
        lambda: clock(lambda: verl_code.opcodes_of_pairs(task, autojunk=False)),
        lambda: clock(theirs),
    )
    n_lines = sum(map(len, task))
    hits = f"{sum(map(len, wanted))} opcodes"
    print_row(
        f"opcodes of all pairs, {name}",
        f"{len(pairs)} pairs, {n_lines} lines",
        hits,
        "difflib",
        timed,
    )


def grouping_row(name, task, authors):
    def theirs():
        return authors._build_anchors_for_uid(
            snippets(task), "task", sim_thresh=0.8, max_span=32, s0=8.0, count_ref=8.0, phi_form="saturating",
            psi_form="saturating", max_anchors=64, min_block_lines=1, max_pairs_per_uid=-1,
        )  # fmt: skip

    def ours():
        return _hunkwise.opcode_anchors([roots(task)], SETTINGS, 1)[0]

    wanted = [
        (
            [
                (one.row, *one.span, one.token_start, one.token_end)
                for one in anchor.occ
            ],
            anchor.gs,
        )
        for anchor in theirs()
    ]
    found = [
        ([(one[0], one[1], one[2], *one[4]) for one in anchor[0]], anchor[1])
        for anchor in ours()
    ]
    if found != wanted:
        raise SystemExit(f"{name}: anchors differ from the authors'")
    timed = timing.in_turns(lambda: clock(ours), lambda: clock(theirs))
    shape = f"{len(task)} roots, {sum(map(len, task))} lines"
    print_row(
        f"grouping, all pairs, {name}",
        shape,
        f"{len(wanted)} anchors",
        "verl-code, difflib",
        timed,
    )


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("files", nargs="*")
    parser.add_argument("--task", action="append", default=[])
    parser.add_argument("--verl-code")
    parser.add_argument("--made-up", action="append", default=[], metavar="ROWSxLINES")
    given = parser.parse_args()
    authors = None
    if given.verl_code:
        sys.path.insert(0, given.verl_code)
        from didpo import core_didpo as authors
    tasks = {}
    for path in given.files:
        of_file = tasks_of(path)
        names = (
            given.task
            or sorted(of_file, key=lambda name: -sum(map(len, of_file[name])))[:3]
        )
        tasks |= {name: of_file[name] for name in names if name in of_file}
    for shape in given.made_up:
        n_rows, n_lines = map(int, shape.split("x"))
        tasks[f"made-up {shape}"] = made_up(n_rows, n_lines)
    print(
        "| operation | shape | hits | ours | peer | peer's time | ratio |\n| --- | --- | --- | --- | --- | --- | --- |"
    )
    for name, task in tasks.items():
        opcodes_row(name, task)
        if authors is not None:
            grouping_row(name, task, authors)


if __name__ == "__main__":
    main()
