#!/usr/bin/env python3
"""Makes the example rollouts: `python3 examples/make_rollouts.py` rewrites examples/rollouts byte for byte.

Each file of examples/tasks holds a small program with faults, its tests, several ways to write each part of the
fix, and a list of rollouts: which way each turn of each rollout takes. This script writes the responses, applies
their edits, runs the tests for real after each turn, and writes the rollouts with the rewards that come out:
the turn reward is the change in the share of tests that pass, the outcome is 1 when all pass in the end.

`--check` compares with the files that are there, and exits with 1 when they differ.
Python 3.9 or later, standard library only.
"""

import argparse
import difflib
import hashlib
import importlib.util
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

sys.dont_write_bytecode = True  # leaves no __pycache__ among the examples

HERE = Path(__file__).resolve().parent
TIME_LIMIT_S = 60.0

# Which tasks go into which file, in which dump format and edit notation.
FILES = {
    "hunkwise.jsonl": [("slugify", "xml"), ("intervals", "xml"), ("ttl_cache", "unified")],
    "verl.jsonl": [("duration", "unified"), ("ledger", "search_replace"), ("toposort", "xml")],
}

# Runs one test after the other and prints each result. A test that takes a second of processor time is stopped, on
# a busy machine no sooner than on a free one.
RUNNER = """
import json, signal, sys, unittest
def stop(*_):
    raise TimeoutError("no end after a second")
class Result(unittest.TestResult):
    def startTest(self, test):
        super().startTest(test)
        signal.setitimer(signal.ITIMER_VIRTUAL, 1.0)
    def stopTest(self, test):
        signal.setitimer(signal.ITIMER_VIRTUAL, 0.0)
        super().stopTest(test)
    def say(self, test, text):
        print(json.dumps([test._testMethodName, text]))
    def addSuccess(self, test):
        self.say(test, "ok")
    def addFailure(self, test, err):
        self.say(test, (err[0].__name__ + ": " + str(err[1])).splitlines()[0])
    addError = addFailure
signal.signal(signal.SIGVTALRM, stop)
sys.path.insert(0, ".")
try:
    import tests_of_task
except Exception as e:
    print(json.dumps(["import", (type(e).__name__ + ": " + str(e)).splitlines()[0]]))
else:
    unittest.defaultTestLoader.loadTestsFromModule(tests_of_task).run(Result())
"""

OPENINGS = [
    "I read `{path}` and the failing tests first.",
    "Let me see what the tests ask for → `{path}` misses a few cases.",
    "Here is my plan: small edits in `{path}`, one place at a time.",
    "The failing tests point at `{path}`; I will change as little as I can.",
    "Looking at `{path}`, more than one thing is wrong.",
]
RETRIES = [
    "The run shows {n_failed} of {n_tests} still failing, so my last edit was not enough.",
    "Still {n_failed} failing. Back to `{path}`.",
    "Hm — {n_failed} of {n_tests} fail after that edit. Let me correct it.",
]
CLOSINGS = [
    "That should make the tests pass.",
    "I keep the rest of the file as it is.",
    "Let me run the tests again ✓",
    "No other caller depends on this, so the edit is safe.",
    "",
]
NO_EDIT = "I went through `{path}` line by line, and I believe it is right as it stands; the tests look naïve to me."


def load_task(name):
    spec = importlib.util.spec_from_file_location(name, HERE / "tasks" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def choose(options, *key):
    """One of the options: the same one each time for the same key."""
    digest = hashlib.sha256("/".join(map(str, key)).encode()).digest()
    return options[int.from_bytes(digest[:4], "big") % len(options)]


def render(task, state):
    """The program with each slot filled in; a slot is a line `@@name@@` of the template."""
    lines = []
    for line in task.TEMPLATE.strip("\n").split("\n"):
        slot = re.fullmatch(r"@@(\w+)@@", line)
        if slot is None:
            lines.append(line)
        else:
            code = task.SLOTS[slot[1]][state.get(slot[1], "start")][0].strip("\n")
            lines.extend(code.split("\n") if code else [])
    return lines


def run_tests(task, program, cache):
    """Result of each test, by name: "ok" or what went wrong."""
    key = (task.ID, "\n".join(program))
    if key in cache:
        return cache[key]
    names = re.findall(r"def (test_\w+)", task.TESTS)
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, task.PATH).write_text("\n".join(program) + "\n", encoding="utf-8")
        Path(folder, "tests_of_task.py").write_text(task.TESTS, encoding="utf-8")
        command = [sys.executable, "-B", "-X", "utf8", "-c", RUNNER]
        variables = {"PATH": "", "PYTHONHASHSEED": "0"}
        done = subprocess.run(command, cwd=folder, env=variables, capture_output=True, timeout=TIME_LIMIT_S)
    said = dict(json.loads(line) for line in done.stdout.decode().splitlines())
    cache[key] = {name: said.get(name, said.get("import", "not run")) for name in names}
    return cache[key]


def observation(results):
    """What the model sees of a test run."""
    failed = {name: text for name, text in results.items() if text != "ok"}
    lines = [f"{len(results) - len(failed)} of {len(results)} tests pass."]
    lines += [f"FAILED {name}: {text[:100]}" for name, text in failed.items()]
    return "\n".join(lines)


def blocks(before, after, n_context):
    """Places where two versions differ: (first line before, first line after, [(prefix, line)])."""
    matcher = difflib.SequenceMatcher(None, before, after, autojunk=False)
    for group in matcher.get_grouped_opcodes(n_context):
        lines = []
        for tag, a, a_end, b, b_end in group:
            if tag == "equal":
                lines += [(" ", line) for line in before[a:a_end]]
                continue
            lines += [("-", line) for line in before[a:a_end]]
            lines += [("+", line) for line in after[b:b_end]]
        yield group[0][1], group[0][3], lines


def side(lines, dropped):
    return [line for prefix, line in lines if prefix != dropped]


def places(program, wanted):
    n = len(wanted)
    return [i for i in range(len(program) - n + 1) if program[i : i + n] == wanted]


def unique_blocks(before, after):
    """Blocks with the least context that makes each one's old text unique."""
    for n_context in range(1, len(before) + 1):
        found = list(blocks(before, after, n_context))
        if all(len(places(before, side(lines, "+"))) == 1 for _, _, lines in found):
            return found
    return []


def write_edits(path, notation, before, after):
    """The text of an edit and its blocks, in one notation."""
    if notation == "unified":
        found = list(blocks(before, after, 3))
        text = [f"--- a/{path}", f"+++ b/{path}"]
        for a, b, lines in found:
            n_old, n_new = len(side(lines, "+")), len(side(lines, "-"))
            text.append(f"@@ -{a + 1},{n_old} +{b + 1},{n_new} @@")
            text += [prefix + line for prefix, line in lines]
        return "\n".join(["```diff", *text, "```"]), found
    found = unique_blocks(before, after)
    parts = []
    for _, _, lines in found:
        old, new = side(lines, "+"), side(lines, "-")
        if notation == "xml":
            head, tail = [f'<edit path="{path}">', "<search>"], ["</replace>", "</edit>"]
            parts.append("\n".join([*head, *old, "</search>", "<replace>", *new, *tail]))
        else:
            parts.append("\n".join([path, "<<<<<<< SEARCH", *old, "=======", *new, ">>>>>>> REPLACE"]))
    return "\n\n".join(parts), found


def apply(program, found):
    """The program after the edits, or None when the old text of one does not stand in it exactly once."""
    program = list(program)
    for _, _, lines in found:
        old, new = side(lines, "+"), side(lines, "-")
        where = places(program, old)
        if len(where) != 1:
            return None
        program[where[0] : where[0] + len(old)] = new
    return program


def play(task, number, rollout, notation, cache):
    """One rollout: a list of turns {"text", "observation", "reward"} and its outcome."""
    state = {}
    program = render(task, state)
    results = run_tests(task, program, cache)
    seen = f"{task.PROMPT}\n{observation(results)}"
    turns = []
    for index, step in enumerate(rollout):
        n_failed = sum(text != "ok" for text in results.values())
        words = {"path": task.PATH, "n_failed": n_failed, "n_tests": len(results)}
        key = (task.ID, number, index)
        # A stale turn writes its edit against the first version of the program and forgets its own earlier edits.
        stale = step.get("stale", False)
        changes = {slot: variant for slot, variant in step.items() if slot != "stale"}
        before = render(task, {}) if stale else program
        after = render(task, {**({} if stale else state), **changes})
        said = [choose(RETRIES if index else OPENINGS, *key).format(**words)]
        if changes:
            text, found = write_edits(task.PATH, notation, before, after)
            said.append(" ".join(task.SLOTS[slot][variant][1] for slot, variant in changes.items()))
            said += [text, choose(CLOSINGS, *key, "end")]
        else:
            found = []
            said.append(NO_EDIT.format(**words))
        applied = apply(program, found)
        if applied is not None:
            program = applied
            state.update(changes)
        was = results
        results = run_tests(task, program, cache)
        gain = sum(t == "ok" for t in results.values()) - sum(t == "ok" for t in was.values())
        turn = {"text": "\n\n".join(part for part in said if part), "observation": seen}
        turn["reward"] = round(gain / len(results), 4)
        turns.append(turn)
        missed = "An edit was not applied: its old text was not found exactly once.\n"
        seen = (missed if applied is None else "") + observation(results)
    return turns, float(all(text == "ok" for text in results.values()))


TOKEN = re.compile(rb" ?[A-Za-z]{1,8}|[0-9]|\n+| +|[\x80-\xff]{1,2}|.", re.DOTALL)


def token_ends(text):
    """Byte ends of simple tokens: words, digits, spaces, single bytes. Three-byte characters are split."""
    return [match.end() for match in TOKEN.finditer(text)]


def row_of_turn(task, number, index, turn, outcome):
    ends = token_ends(turn["text"].encode())
    ends.append(ends[-1])  # the end-of-turn token: trained, without text
    return {
        "task": task.ID,
        "trajectory": str(number),
        "turn": index,
        "text": turn["text"],
        "token_ends": ends,
        "mask": [1] * len(ends),
        "reward": turn["reward"],
        "observation": turn["observation"],
        "outcome": outcome,
    }


def row_of_rollout(task, number, turns, outcome):
    """All turns in one row, with what the tests said between them; that is not the model's, so its mask is 0."""
    text, ends, mask, spans = b"", [], [], []
    for index, turn in enumerate(turns):
        pieces = [(turn["text"].encode(), 1)]
        if index:
            pieces.insert(0, (f"\n[tests]\n{turn['observation']}\n[/tests]\n".encode(), 0))
        for piece, trained in pieces:
            new = [len(text) + end for end in token_ends(piece)]
            if trained:
                span = {"start": len(text), "end": len(text) + len(piece), "reward": turn["reward"]}
                spans.append({**span, "observation": turn["observation"]})
                new.append(new[-1])
            text += piece
            ends += new
            mask += [trained] * len(new)
    return {
        "task": task.ID,
        "trajectory": str(number),
        "turn": 0,
        "text": text.decode(),
        "token_ends": ends,
        "mask": mask,
        "turns": spans,
        "outcome": outcome,
    }


def rows_of(name, task, number, turns, outcome):
    if name == "hunkwise.jsonl":
        if number % 4 == 3 and len(turns) > 1:
            return [row_of_rollout(task, number, turns, outcome)]
        return [row_of_turn(task, number, i, turn, outcome) for i, turn in enumerate(turns)]
    rows = []
    for index, turn in enumerate(turns):
        row = {"input": f"user\n{turn['observation']}\nassistant\n", "output": turn["text"]}
        row |= {"gts": f"test_{task.PATH}", "score": outcome, "step": 1}
        rows.append({**row, "uid": f"{task.ID}_{number}_{index}"})
    return rows


def make(name, report):
    lines, cache = [], {}
    for task_name, notation in FILES[name]:
        task = load_task(task_name)
        for number, rollout in enumerate(task.ROLLOUTS):
            turns, outcome = play(task, number, rollout, notation, cache)
            report(task.ID, number, rollout, [turn["reward"] for turn in turns], outcome)
            for row in rows_of(name, task, number, turns, outcome):
                lines.append(json.dumps(row, ensure_ascii=False, separators=(",", ":")))
    return "".join(line + "\n" for line in lines).encode()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--check", action="store_true", help="compare only; exit with 1 when the files differ")
    parser.add_argument("--verbose", action="store_true", help="print each rollout with its rewards")
    options = parser.parse_args()
    differ = False
    for name in FILES:
        made = make(name, print if options.verbose else lambda *_: None)
        path = HERE / "rollouts" / name
        if options.check:
            same = path.is_file() and path.read_bytes() == made
            print(f"{path.name}: {'same' if same else 'differs'}")
            differ |= not same
        else:
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(made)
            print(f"{path.name}: {len(made.splitlines())} rows, {len(made)} bytes")
    return 1 if differ else 0


if __name__ == "__main__":
    sys.exit(main())
