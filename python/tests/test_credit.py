"""Credit from Python: that of the command line, and in the order of the rows."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import hunkwise
from hunkwise import _hunkwise

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = sorted((ROOT / "examples/rollouts").glob("*.jsonl"))
EDIT = '<edit path="shop.py"><search>\npass\n</search><replace>\nreturn sum(prices)\n</replace></edit>'


def row(outcome, **changes):
    return {"task": "shop", "text": EDIT, "token_ends": [27, 54, len(EDIT)], "outcome": outcome} | changes


def command():
    """The command line that belongs to this checkout, where it has been built."""
    named = os.environ.get("HUNKWISE_BINARY")
    for path in [named] if named else [ROOT / "target/release/hunkwise", ROOT / "target/debug/hunkwise"]:
        if path and Path(path).exists():
            return str(path)
    pytest.skip("the hunkwise binary is not built: cargo build, or HUNKWISE_BINARY")


@pytest.mark.parametrize("flags, config", [([], None), (["--grouping", "exact"], {"grouping": "exact"})])
def test_files_are_those_of_the_command_line_byte_for_byte(tmp_path, flags, config):
    credit = hunkwise.credit(EXAMPLES, config)
    credit.write(tmp_path / "rows")
    credit.write_groups(tmp_path / "groups")
    run = [command(), "credit", *map(str, EXAMPLES), "-o", str(tmp_path / "rows_cli"), "-q"]
    subprocess.run([*run, "--groups", str(tmp_path / "groups_cli"), *flags], check=True)
    for name in ("rows", "groups"):
        assert (tmp_path / name).read_bytes() == (tmp_path / f"{name}_cli").read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["groups", "groups_cli", "rows", "rows_cli"]


def test_dicts_give_what_their_lines_give(tmp_path):
    lines = EXAMPLES[0].read_text().splitlines()
    of_dicts = hunkwise.credit([json.loads(line) for line in lines])
    of_file = hunkwise.credit(EXAMPLES[0])
    of_dicts.write(tmp_path / "dicts")
    of_file.write(tmp_path / "file")
    assert (tmp_path / "dicts").read_bytes() == (tmp_path / "file").read_bytes()
    counts = [
        {name: value for name, value in credit.to_metrics().items() if "/seconds/" not in name}
        for credit in (of_dicts, of_file)
    ]
    assert counts[0] == counts[1]


def test_rows_come_back_in_the_order_that_they_were_given():
    rows = [row(0.0, trajectory="b"), row(1.0, trajectory="a"), row(0.0, trajectory="c", task=5)]
    credit = hunkwise.credit(rows)
    assert len(credit) == 3
    assert [found.trajectory for found in credit.rows] == ["b", "a", "c"]
    # Two rollouts, scores 0 and 1: A^E is -+0.7071, A^D is -+0.5 times lambda 1.2 on both edited tokens.
    loser, winner, alone = credit.advantages
    assert winner.dtype == np.float32
    np.testing.assert_allclose(winner, [0.70710576, 1.3071058, 1.3071058], rtol=1e-6)
    np.testing.assert_allclose(loser, [-0.70710576, -1.3071058, -1.3071058], rtol=1e-6)
    np.testing.assert_array_equal(alone, [0.0, 0.0, 0.0])
    # What the spans say is what the arrays have.
    for found, dense in zip(credit.rows, credit.advantages, strict=True):
        spread = np.full(3, found.episode, np.float32)
        for span in found.token_spans:
            spread[span.start : span.end] += np.float32(span.advantage)
        np.testing.assert_array_equal(spread, dense)


def test_groups_and_diagnostics():
    credit = hunkwise.credit([row(0.0), row(1.0)])
    added = next(group for group in credit.groups if group.edit_type == "add")
    assert [member.text for member in added.members] == ["return sum(prices)\n"] * 2
    assert sorted(member.advantage for member in added.members) == [-0.5, 0.5]
    assert credit.diagnostics["n_tasks"] == 1
    assert credit.to_metrics()["hunkwise/trajectories"] == 2.0


def test_arrays_bytes_and_numpy_numbers_are_taken():
    plain = hunkwise.credit([row(0.0), row(1.0)])
    ends = np.array([27, 54, len(EDIT)])
    rows = [row(np.float32(0.0), token_ends=ends), row(np.int64(1), token_ends=tuple(ends), text=EDIT.encode())]
    given = hunkwise.credit(rows)
    for one, other in zip(plain.advantages, given.advantages, strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_row_that_cannot_be_used_is_flagged_and_the_rest_goes_on():
    credit = hunkwise.credit([row(0.0), {"task": "shop", "text": 5}, row(1.0)])
    assert credit.rows[1] is None and credit.advantages[1] is None
    assert [place for place, _ in credit.flagged] == [1]
    assert credit.advantages[2][0] > 0 > credit.advantages[0][0]
    with pytest.raises(ValueError, match="rollouts:2"):
        hunkwise.credit([row(0.0), {"task": "shop", "text": 5}], strict=True)


@pytest.mark.parametrize(
    "call, kind, message",
    [
        (lambda: hunkwise.credit([5]), TypeError, r"rollouts\[0\] is int"),
        (lambda: hunkwise.credit([row(0.0, mask=object())]), TypeError, r"rollouts\[0\]: a object"),
        (lambda: hunkwise.credit("missing.jsonl"), FileNotFoundError, "missing.jsonl"),
        (lambda: hunkwise.credit([]), ValueError, "no rollouts"),
        (lambda: hunkwise.credit([row(0.0)], {"similarity": {"eta": 7}}), ValueError, "eta"),
        (lambda: hunkwise.credit([row(0.0)], {"similarity": {"etta": 7}}), ValueError, "config.similarity.etta"),
        (lambda: hunkwise.credit([row(0.0)], {"grouping": "chunks"}), ValueError, "chunks"),
        (lambda: hunkwise.credit([row(0.0)], format="verl"), ValueError, "dumps"),
        (lambda: hunkwise.credit(EXAMPLES, format="vrl"), ValueError, "verl"),
        (lambda: hunkwise.credit([row(0.0)], threads=5000), ValueError, "1024"),
    ],
)
def test_errors_are_pythons_own(call, kind, message):
    with pytest.raises(kind, match=message):
        call()


def test_the_result_does_not_depend_on_threads(monkeypatch):
    made = [hunkwise.credit(EXAMPLES, threads=n)._raw.rows_jsonl(True, False) for n in (1, 2, 3)]
    assert made[0] == made[1] == made[2]
    monkeypatch.setenv("HUNKWISE_NUM_THREADS", "two")
    with pytest.raises(ValueError, match="HUNKWISE_NUM_THREADS"):
        hunkwise.credit([row(0.0)])


def test_a_forked_process_computes_too():
    code = f"""
import os, hunkwise
rows = [{row(0.0)!r}, {row(1.0)!r}]
before = hunkwise.credit(rows, threads=2).advantages[1].tolist()
child = os.fork()
if child == 0:
    os._exit(0 if hunkwise.credit(rows, threads=2).advantages[1].tolist() == before else 1)
raise SystemExit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    assert subprocess.run([sys.executable, "-c", code], timeout=60, check=False).returncode == 0


def test_importing_starts_no_thread():
    code = "import hunkwise, os; print(len(os.listdir('/proc/self/task')))"
    alone = "import numpy, os; print(len(os.listdir('/proc/self/task')))"
    count = [subprocess.check_output([sys.executable, "-c", one], text=True) for one in (code, alone)]
    assert count[0] == count[1]


def test_defaults_are_those_of_the_crate():
    assert hunkwise.Config().to_dict() == json.loads(_hunkwise.default_config())


def test_a_config_comes_from_dicts_files_and_changes(tmp_path):
    file = tmp_path / "config.toml"
    file.write_text('grouping = "exact"\n[advantage]\nlambda = 0.5\n')
    wanted = hunkwise.Config(grouping="exact", advantage=hunkwise.AdvantageConfig(lam=0.5))
    assert hunkwise.Config.from_dict({"grouping": "exact", "advantage": {"lambda": 0.5}}) == wanted
    assert hunkwise.Config.from_dict({"grouping": "exact", "advantage": {"lam": 0.5}}) == wanted
    assert hunkwise.Config.from_dict(wanted.to_dict()) == wanted
    assert hunkwise.Config().replace(grouping="exact", **{"advantage.lam": 0.5}) == wanted
    if sys.version_info >= (3, 11):
        assert hunkwise.Config.from_toml(file) == wanted
        assert hunkwise.credit([row(0.0)], file).config == wanted
    with pytest.raises(ValueError, match="given twice"):
        hunkwise.Config.from_dict({"advantage": {"lam": 0.5, "lambda": 0.5}})
