#!/usr/bin/env python3
"""Gives bad input of every kind to the command line and checks what it says and writes.

    python3 dev/bad_input.py target/release/hunkwise [--only NAME] [--quick] [--verbose]

For each case: no panic, exit code 0 (all fine), 1 (error, nothing written), 2 (usage) or 3 (written, some rows
flagged) as the case expects; the message names the file, the line and the field where there are any; the output is
absent or whole JSON lines; the good rows around the bad one are all in it; no file is left beside it; an output that
was there before an error is untouched. Standard library only.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

TIME_LIMIT_S = 300
OLD = b'{"old":"output"}\n'
BAD_TASK = "bad"


def row(task, trajectory, /, **changes):
    text = f'<edit path="f.py">\n<search>\nx = 0\n</search>\n<replace>\nx = {trajectory}\ny = x + 1 # é\n</replace>\n</edit>'
    size = len(text.encode())
    ends = [*range(4, size, 4), size]
    made = {"task": task, "trajectory": trajectory, "turn": 0, "text": text, "token_ends": ends}
    made |= {"mask": [1] * len(ends), "outcome": float(trajectory == "1")}
    made |= changes
    return {key: value for key, value in made.items() if value is not Ellipsis}


def line(value):
    return json.dumps(value, ensure_ascii=False).encode() + b"\n"


GOOD = [row(task, trajectory) for task in ("a", "b") for trajectory in ("0", "1", "2")]
N_BEFORE = 4  # good rows before the bad one, so that it stands on line 5


def around(bad):
    """Good rows with the bad line in the middle."""
    lines = [line(good) for good in GOOD]
    return b"".join([*lines[:N_BEFORE], bad, *lines[N_BEFORE:]])


def flagged(name, bad, field=None, codes=(3,), keeps_bad=None):
    """A bad row between good ones: flagged with its line; `keeps_bad` says whether it is in the output all the same."""
    content = bad if callable(bad) else (lambda: bad)
    return {"name": name, "content": lambda: around(content()), "codes": codes, "field": field, "keeps_bad": keeps_bad}


def literal(field, value):
    """A row with a field spelled as it stands, also where JSON would not allow it."""
    return line(row(BAD_TASK, "1", **{field: "@@@"})).replace(b'"@@@"', value.encode(), 1)


def cases():
    bad = row(BAD_TASK, "1")
    ends, text = bad["token_ends"], bad["text"]
    yield {"name": "good", "content": lambda: around(b""), "codes": (0,), "field": None, "keeps_bad": None}
    yield flagged("not JSON", b"this is not JSON\n")
    yield flagged("JSON cut off", line(bad)[:60] + b"\n")
    yield flagged("JSON of another kind", b"[1, 2, 3]\n")
    yield flagged("a number", b"17\n")
    yield flagged("two objects on a line", line(bad)[:-1] + line(bad))
    yield flagged("deep nesting", b'{"task": ' + b"[" * 100_000 + b"]" * 100_000 + b"}\n")
    for field in ("task", "text"):
        yield flagged(f"missing {field}", line(row(BAD_TASK, "1", **{field: ...})), field)
    yield flagged("task is a list", line(row(BAD_TASK, "1", task=[1])), "task")
    yield flagged("task is true", line(row(BAD_TASK, "1", task=True)), "task")
    yield flagged("task is null", line(row(BAD_TASK, "1", task=None)), "task")
    yield flagged("text is a number", line(row(BAD_TASK, "1", text=5)), "text")
    yield flagged("text is a list", line(row(BAD_TASK, "1", text=[text])), "text")
    yield flagged("trajectory is an object", line(row(BAD_TASK, "1", trajectory={})), "trajectory")
    yield flagged("turn is a string", line(row(BAD_TASK, "1", turn="first")), "turn")
    yield flagged("turn is negative", line(row(BAD_TASK, "1", turn=-1)), "turn")
    yield flagged("turns is a number", line(row(BAD_TASK, "1", turns=3)), "turns")
    yield flagged("turn out of range", line(row(BAD_TASK, "1", turns=[{"start": 0, "end": 10_000}])), "turns")
    yield flagged("turn backwards", line(row(BAD_TASK, "1", turns=[{"start": 9, "end": 3}])), "turns")
    overlap = [{"start": 0, "end": 20}, {"start": 10, "end": 30}]
    yield flagged("turns overlap", line(row(BAD_TASK, "1", turns=overlap)), "turns")
    for field in ("outcome", "reward"):
        # Passed or not is a reward: true is 1.
        yield flagged(f"{field} is true", literal(field, "true"), None, (0,), True)
        for value in ("NaN", "Infinity", "-Infinity", '"high"', "[1]", "1e999"):
            # Kept without a score or left out: both are honest, losing other rows or a silent 0 is not.
            # A number beyond f64 may be refused before anyone knows its field.
            yield flagged(f"{field} is {value}", literal(field, value), None if value == "1e999" else field)
    yield flagged("outcome is null", literal("outcome", "null"), None, (0, 3), True)
    yield flagged("fewer mask entries", line(row(BAD_TASK, "1", mask=[1] * (len(ends) - 1))), "mask")
    yield flagged("more mask entries", line(row(BAD_TASK, "1", mask=[1] * (len(ends) + 1))), "mask")
    yield flagged("mask holds 2", line(row(BAD_TASK, "1", mask=[2] * len(ends))), "mask")
    yield flagged("mask holds 0.5", line(row(BAD_TASK, "1", mask=[0.5] * len(ends))), "mask")
    yield flagged("mask without tokens", line(row(BAD_TASK, "1", token_ends=...)), "mask", (0, 3))
    yield flagged("tokens end early", line(row(BAD_TASK, "1", token_ends=[*ends[:-1], ends[-1] - 1])), "token_ends")
    yield flagged("tokens end late", line(row(BAD_TASK, "1", token_ends=[*ends[:-1], ends[-1] + 5])), "token_ends")
    yield flagged("tokens go back", line(row(BAD_TASK, "1", token_ends=[8, 4, *ends[2:]])), "token_ends")
    yield flagged("token end negative", line(row(BAD_TASK, "1", token_ends=[-4, *ends[1:]])), "token_ends")
    yield flagged("token end huge", line(row(BAD_TASK, "1", token_ends=[*ends[:-1], 2**70])), "token_ends")
    yield flagged("token end a string", line(row(BAD_TASK, "1", token_ends=["4", *ends[1:]])), "token_ends")
    yield flagged("no tokens for a text", line(row(BAD_TASK, "1", token_ends=[], mask=[])), "token_ends")
    yield flagged("empty text", line(row(BAD_TASK, "1", text="", token_ends=[], mask=[])), None, (0, 3))
    yield flagged("invalid UTF-8", line(bad).replace(b"x = 1", b"x = \xff"))
    yield flagged("UTF-8 cut off", line(bad).replace("é".encode(), b"\xc3"))
    yield flagged("NUL bytes", b"\0\0\0\0\n")
    yield flagged("lone surrogate", line(bad).replace("é".encode(), rb"\ud800"), None, (0, 3))
    yield flagged("task with one rollout", line(bad), None, (0, 3), True)
    yield {**flagged("same row twice", line(GOOD[0])), "place": r"in\.jsonl:[15]\b"}
    yield flagged("blank lines", b"\n\n  \n", None, (0,))
    yield flagged("100 MB of no JSON", lambda: b"x" * 100_000_000 + b"\n")
    long_text = lambda: line(row(BAD_TASK, "1", text="x = 1\n" * 16_700_000, token_ends=..., mask=...))  # noqa: E731
    yield flagged("100 MB line", long_text, None, (0, 3))
    edit_of_long_lines = '<edit path="f.py"><code>\n' + ("x" * 1_000_000 + "\n") * 100
    long_edit = lambda: line(row(BAD_TASK, "1", text=edit_of_long_lines, token_ends=..., mask=...))  # noqa: E731
    yield flagged("100 MB edit", long_edit, None, (0, 3))
    whole = {"codes": (1,), "field": None, "keeps_bad": None}
    yield {**whole, "name": "empty file", "content": lambda: b""}
    yield {**whole, "name": "only blank lines", "content": lambda: b"\n\n"}
    yield {**whole, "name": "nothing usable", "content": lambda: b"no\nnothing\n"}
    yield {**whole, "name": "unknown format", "content": lambda: b'{"colour": 1, "sound": 2}\n' * 3}
    yield {**whole, "name": "binary file", "content": lambda: bytes(range(256)) * 64}
    yield {**whole, "name": "cut Parquet file", "content": lambda: b"PAR1" + bytes(40)}
    yield {**whole, "name": "missing file", "input": "missing"}
    yield {**whole, "name": "folder as input", "input": "folder"}
    yield {**whole, "name": "output in a missing folder", "content": lambda: around(b""), "output": "missing"}
    yield {**whole, "name": "output is a folder", "content": lambda: around(b""), "output": "folder"}
    if os.name == "posix" and os.geteuid() != 0:
        yield {**whole, "name": "output in a closed folder", "content": lambda: around(b""), "output": "closed"}
    usage = {"codes": (2,), "field": None, "keeps_bad": None, "content": lambda: around(b"")}
    yield {**usage, "name": "unknown flag", "flags": ["--no-such-flag"]}
    yield {**usage, "name": "no input", "input": "none"}
    yield {**usage, "name": "eta out of range", "flags": ["--eta", "7"], "codes": (1, 2)}
    yield {**usage, "name": "eta is a word", "flags": ["--eta", "much"], "codes": (1, 2)}
    yield {**usage, "name": "missing configuration", "flags": ["--config", "no-such.toml"], "codes": (1, 2)}
    yield {**usage, "name": "no threads", "flags": ["--threads", "-3"], "codes": (1, 2)}


def read_output(path):
    """Rows of an output file, or a complaint."""
    data = path.read_bytes()
    if data and not data.endswith(b"\n"):
        return None, "the output does not end with a line feed"
    try:
        return [json.loads(row) for row in data.splitlines()], None
    except ValueError as error:
        return None, f"the output is not JSON lines: {error}"


def check(binary, case, folder):
    """Complaints about one case, and what the binary said."""
    source, out_folder = folder / "in.jsonl", folder / "out"
    out_folder.mkdir()
    output = out_folder / "out.jsonl"
    if "content" in case:
        source.write_bytes(case["content"]())
    inputs = [str(source)]
    if case.get("input") == "folder":
        source.mkdir()
    if case.get("input") == "none":
        inputs = []
    match case.get("output"):
        case "missing":
            output = out_folder / "missing" / "out.jsonl"
        case "folder":
            output.mkdir()
        case "closed":
            out_folder.chmod(0o500)
        case None:
            output.write_bytes(OLD)
    before = {path.name for path in out_folder.iterdir()}
    command = [binary, "credit", *inputs, "-o", str(output), *case.get("flags", [])]
    try:
        done = subprocess.run(command, capture_output=True, timeout=TIME_LIMIT_S, cwd=folder)
    except subprocess.TimeoutExpired:
        return [f"no end after {TIME_LIMIT_S} s"], ""
    finally:
        out_folder.chmod(0o700)
    said = (done.stderr + done.stdout).decode(errors="replace")
    complaints = []
    if "panicked" in said or "RUST_BACKTRACE" in said:
        complaints.append("it panicked")
    if done.returncode not in case["codes"]:
        complaints.append(f"exit code {done.returncode}, expected one of {case['codes']}")
    if done.returncode in (1, 2) and not said.strip():
        complaints.append("an error without a message")
    if left := {path.name for path in out_folder.iterdir()} - before - {output.name}:
        complaints.append(f"left behind: {sorted(left)}")
    if done.returncode in (1, 2):
        if output.is_file() and output.read_bytes() != OLD:
            complaints.append("an error, and yet the output changed")
        named = source.name in said or str(out_folder) in said
        if done.returncode == 1 and "flags" not in case and not named:
            complaints.append("the message names no file")
    elif done.returncode in (0, 3):
        complaints += check_written(case, output, said, done.returncode)
    return complaints, said


def check_written(case, output, said, code):
    rows, complaint = read_output(output) if output.is_file() else (None, "no output was written")
    if complaint:
        return [complaint]
    complaints = []
    seen = {(str(row.get("task")), str(row.get("trajectory"))) for row in rows}
    lost = {(row["task"], row["trajectory"]) for row in GOOD} - seen
    if lost:
        complaints.append(f"good rows are lost: {sorted(lost)}")
    if case["keeps_bad"] and (BAD_TASK, "1") not in seen:
        complaints.append("the odd row itself is lost")
    if code == 3:
        place = case.get("place", rf"in\.jsonl:{N_BEFORE + 1}\b")
        if not re.search(place, said):
            complaints.append(f"the message does not name the place {place}")
        if case["field"] and case["field"] not in said:
            complaints.append(f"the message does not name the field {case['field']}")
    return complaints


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("binary", type=Path)
    parser.add_argument("--only", help="cases whose name holds this text")
    parser.add_argument("--quick", action="store_true", help="leave out the lines of 100 MB")
    parser.add_argument("--verbose", action="store_true", help="print what the binary says in each case")
    options = parser.parse_args()
    binary = str(options.binary.resolve())
    n_wrong = n_cases = 0
    for case in cases():
        if options.only and options.only not in case["name"] or options.quick and "100 MB" in case["name"]:
            continue
        n_cases += 1
        with tempfile.TemporaryDirectory() as folder:
            began = time.monotonic()
            complaints, said = check(binary, case, Path(folder))
            took = time.monotonic() - began
        n_wrong += bool(complaints)
        print(f"{'WRONG' if complaints else 'ok   '}  {case['name']} ({took:.1f} s)", flush=True)
        for complaint in complaints:
            print(f"         {complaint}")
        if complaints or options.verbose:
            print("".join(f"       | {text[:300]}\n" for text in said.strip().splitlines()[:12]), end="")
    print(f"{n_cases} cases, {n_wrong} wrong")
    return 1 if n_wrong or not n_cases else 0


if __name__ == "__main__":
    sys.exit(main())
