"""The scripts of examples/ that use the Python package."""

import importlib.util
from pathlib import Path

import pytest

import hunkwise

ROOT = Path(__file__).resolve().parents[2]
DUMP = str(ROOT / "examples/rollouts/verl.jsonl")


@pytest.fixture(scope="module")
def plot():
    spec = importlib.util.spec_from_file_location("credit_plot", ROOT / "examples/credit_plot.py")
    module = importlib.util.module_from_spec(spec)
    # Dataclasses look their module up.
    import sys

    sys.modules["credit_plot"] = module
    spec.loader.exec_module(module)
    return module


def test_lines_have_what_spans_say(plot):
    row = hunkwise.CreditRow("t", "0", 0, 1.0, 0.25, (hunkwise.Span(3, 6, 1.0, 0), hunkwise.Span(7, 8, -2.0, 1)), None)
    lines = plot.lines_of("é\nabc\nde\n\nf", row)
    # é has two bytes: the spans are all of `abc` and the first half of `de`.
    assert [(line.text, line.advantage, line.has_credit) for line in lines] == [
        ("é", 0.25, False), ("abc", 1.25, True), ("de", -0.75, True), ("", 0.25, False), ("f", 0.25, False),
    ]  # fmt: skip
    assert [line.text for line in plot.near_credit(lines, 0)] == ["abc", "de"]
    assert [line.text for line in plot.near_credit(lines, 1)] == ["é", "abc", "de", ""]


def test_texts_are_those_that_were_credited(plot):
    texts = plot.texts_of([DUMP])
    credit = hunkwise.credit(DUMP)
    keys = {(row.task, row.trajectory, row.turn) for row in credit.rows}
    assert keys == set(texts) and len(keys) > 20
    # Each member's text is in the response that it is said to be in.
    for group in credit.groups:
        for member in group.members:
            text = texts[group.task, member.trajectory, member.turn].encode()
            assert text[member.bytes[0][0] : member.bytes[0][1]]


def test_a_picture_is_drawn(plot, tmp_path, capsys):
    pytest.importorskip("matplotlib")
    path = tmp_path / "credit.png"
    assert plot.main([DUMP, "--task", "1/toposort", "-o", str(path), "--rollouts", "3"]) == 0
    assert path.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n" and path.stat().st_size > 20_000
    assert plot.main([DUMP, "--list"]) == 0
    told = capsys.readouterr().out
    assert "1/toposort: " in told and told.count("rollout ") == 3
    assert plot.main([DUMP, "--task", "none"]) == 1
    assert "there is no task 'none'; there are 1/duration" in capsys.readouterr().err
