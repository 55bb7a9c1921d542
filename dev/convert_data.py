#!/usr/bin/env python3
"""Turns attempts at tasks into dumps of rollouts, with the edits written in any notation.

    python3 dev/convert_data.py FILE... -o FOLDER [--notation mix] [--dump hunkwise] [--layout turn] [--tokens]

Input: JSON lines {"task", "attempt", "turn", "edits": [{"path", "kind": "patch" | "file" | "search_replace", "text",
"old"?}], "reward"}; or a folder of .diff files: each becomes a task with two equal attempts, of which one passes, and
a third without edits.

Every row and every edit comes out again. What a notation cannot say (a binary patch, a body that holds its own end
marker) is written as a unified diff or a tool call instead, and counted. After writing, the file is read back and its
rows, tokens and edits are counted again. Standard library only.
"""

import argparse
import hashlib
import json
import random
import re
import sys
from collections import Counter
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent))
import notations  # noqa: E402

TOKEN = re.compile(rb" ?[A-Za-z]{1,8}|[0-9]|\n+| +|[\x80-\xff]{1,2}|.", re.DOTALL)
OPENINGS = ["Here is the change.", "I think this is where it goes wrong.", "Let me edit the file → see below.", "First:"]
BETWEEN = ["Next, another place.", "This one goes with it:", "And then — the naïve case.", "Also:"]
CLOSINGS = ["That should do it.", "Let me run the tests.", "Done ✓", ""]
NO_EDIT = "I could not find a change that helps."


def choose(options, *key):
    digest = hashlib.sha256("\0".join(map(str, key)).encode()).digest()
    return options[int.from_bytes(digest[:4], "big") % len(options)]


def read_rows(path):
    """Rows of a data file, or of a folder of diffs."""
    if path.is_dir():
        for file in sorted(path.glob("*.diff")):
            edit = {"path": "", "kind": "patch", "text": file.read_bytes().decode()}
            for attempt, (edits, reward) in enumerate([([edit], 1.0), ([edit], 0.0), ([], 0.0)]):
                yield {"task": file.stem, "attempt": attempt, "turn": 0, "edits": edits, "reward": reward}
        return
    with open(path, encoding="utf-8", newline="\n") as lines:
        for line in lines:
            if line.strip():
                yield json.loads(line)


def response(row, wanted, count):
    """The response text of one row: its edits with some prose around them."""
    key = (row["task"], row["attempt"], row["turn"])
    notation = choose(notations.NAMES, *key) if wanted == "mix" else wanted
    if not row["edits"]:
        count["rows without edits"] += 1
        return NO_EDIT + "\n"
    parts = [choose(OPENINGS, *key)]
    for number, edit in enumerate(row["edits"]):
        if number:
            parts.append(choose(BETWEEN, *key, number))
        used, text, n_pieces = notations.write(edit, notation, choose(range(12), *key, number, "form"))
        count["edits"] += 1
        count["pieces"] += n_pieces
        count[f"as {used}"] += 1
        count["fallbacks"] += used != notation
        parts.append(text)
    parts.append(choose(CLOSINGS, *key, "end"))
    return "\n\n".join(part for part in parts if part) + "\n"


def token_ends(text):
    """Byte ends of simple tokens; characters of three bytes and more are split."""
    return [match.end() for match in TOKEN.finditer(text)]


def hunkwise_row(task, attempt, turns, outcome, with_tokens):
    """One row of hunkwise's own format, for one turn or for several; between turns stands what a tool said."""
    text, ends, mask, spans = b"", [], [], []
    for number, (_, said) in enumerate(turns):
        pieces = [(said.encode(), 1)]
        if number:
            pieces.insert(0, (b"\n[tool] The edit was made.\n", 0))
        for piece, trained in pieces:
            new = [len(text) + end for end in token_ends(piece)] if with_tokens else []
            if trained:
                spans.append({"start": len(text), "end": len(text) + len(piece)})
            text += piece
            ends += new
            mask += [trained] * len(new)
    row = {"task": str(task), "trajectory": str(attempt), "turn": turns[0][0], "text": text.decode()}
    if with_tokens:
        row |= {"token_ends": ends, "mask": mask}
    if len(turns) > 1:
        row["turns"] = spans
    return {**row, "outcome": outcome}


def verl_row(task, session, turns, outcome):
    said = "\n[tool] The edit was made.\n".join(text for _, text in turns)
    row = {"input": f"user\nSolve {task}.\nassistant\n", "output": said, "gts": None, "score": outcome, "step": 1}
    return {**row, "uid": f"{task}_{session}_{turns[0][0]}"}


def convert(source, target, options):
    """Writes one file; gives the counts."""
    count = Counter()
    attempts = {}
    for row in read_rows(source):
        count["rows"] += 1
        said = response(row, options.notation, count)
        attempts.setdefault((row["task"], row["attempt"]), []).append((row["turn"], said, row["reward"]))
    lines, sessions = [], Counter()
    for (task, attempt), turns in attempts.items():
        turns.sort(key=lambda turn: turn[0])
        outcome = turns[-1][2]
        pairs = [(number, said) for number, said, _ in turns]
        session, sessions[task] = sessions[task], sessions[task] + 1
        for rows in [pairs] if options.layout == "trajectory" else [[pair] for pair in pairs]:
            if options.dump == "verl":
                made = verl_row(task, session, rows, outcome)
            else:
                made = hunkwise_row(task, attempt, rows, outcome, options.tokens)
            lines.append(json.dumps(made, ensure_ascii=False, separators=(",", ":")))
    if options.shuffle is not None:
        random.Random(options.shuffle).shuffle(lines)
    count["trajectories"], count["tasks"], count["lines"] = len(attempts), len(sessions), len(lines)
    target.write_bytes("".join(line + "\n" for line in lines).encode())
    return count, {(str(task), str(attempt)): len(turns) for (task, attempt), turns in attempts.items()}


def read_back(target, options, turns_of):
    """Complaints about a written file: rows or turns missing, tokens that do not fit."""
    complaints, seen = [], Counter()
    for number, line in enumerate(target.read_bytes().split(b"\n")[:-1], 1):
        row = json.loads(line)
        if options.dump == "verl":
            seen[row["uid"].rsplit("_", 2)[0]] += row["output"].count("\n[tool] The edit was made.\n") + 1
            continue
        text = row["text"].encode()
        spans = row.get("turns", [{"start": 0, "end": len(text)}])
        seen[row["task"], row["trajectory"]] += len(spans)
        ends = row.get("token_ends")
        if ends is not None and (ends != sorted(ends) or ends[-1] != len(text) or len(ends) != len(row["mask"])):
            complaints.append(f"line {number}: tokens do not fit the text")
        if any(not 0 <= s["start"] < s["end"] <= len(text) for s in spans):
            complaints.append(f"line {number}: turns do not fit the text")
    wanted = Counter()
    for (task, attempt), n_turns in turns_of.items():
        wanted[task if options.dump == "verl" else (task, attempt)] += n_turns
    if seen != wanted:
        complaints.append(f"turns per key differ: {sum(wanted.values())} written, {sum(seen.values())} read")
    return complaints


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("inputs", nargs="+", type=Path, help="data files, or folders of .diff files")
    parser.add_argument("-o", "--out", type=Path, required=True, help="folder for <input>.<notation>.jsonl")
    parser.add_argument("--notation", default="mix", choices=[*notations.NAMES, "mix", "all"])
    parser.add_argument("--dump", default="hunkwise", choices=["hunkwise", "verl"])
    parser.add_argument("--layout", default="turn", choices=["turn", "trajectory"], help="what a row holds")
    parser.add_argument("--tokens", action="store_true", help="token byte-ends and masks (hunkwise only)")
    parser.add_argument("--shuffle", type=int, metavar="SEED", help="shuffle the rows")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    failed = False
    for notation in [*notations.NAMES, "mix"] if options.notation == "all" else [options.notation]:
        options.notation = notation
        for source in options.inputs:
            name = source.name.removesuffix(".jsonl")
            marks = [notation] + (["verl"] if options.dump == "verl" else [])
            marks += ["trajectory"] if options.layout == "trajectory" else []
            target = options.out / f"{name}.{'.'.join(marks)}.jsonl"
            count, turns_of = convert(source, target, options)
            complaints = read_back(target, options, turns_of)
            failed |= bool(complaints)
            print(f"{target.name}: " + ", ".join(f"{n} {what}" for what, n in sorted(count.items())))
            for complaint in complaints:
                print(f"  {complaint}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
