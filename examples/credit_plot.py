"""Credit over the diffs of a task, drawn: from a dump that verl wrote (`trainer.rollout_data_dir`) to a picture.

python examples/credit_plot.py examples/rollouts/verl.jsonl --task 1/toposort -o credit.png

Needs hunkwise's Python package and matplotlib. Each panel is a rollout, one turn below the other. Beside each line of
its edits stands its advantage: A^E + lambda A^D, averaged over the bytes of the line. Lines in grey are in no group and
have A^E alone. Without `--task` the task with the most groups is drawn; `--list` tells the tasks.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass

import hunkwise


@dataclass(frozen=True)
class Line:
    """A line of a response."""

    text: str
    advantage: float
    has_credit: bool
    """Some group has a part of it."""


def texts_of(paths: Sequence[str]) -> dict[tuple[str, str, int], str]:
    """The responses of a verl dump by task (`step/uid`), rollout and turn."""
    texts = {}
    for path in paths:
        with open(path, encoding="utf-8") as file:
            for row in map(json.loads, file):
                uid, session, turn = row["uid"].rsplit("_", 2)
                texts[f"{row['step']}/{uid}", session, int(turn)] = row["output"]
    return texts


def lines_of(text: str, row: hunkwise.CreditRow) -> list[Line]:
    """The lines with their advantages: a byte inside a span has what the span adds to A^E."""
    lines = []
    start = 0
    for one in text.encode().splitlines(keepends=True):
        end = start + len(one.rstrip(b"\n"))
        added, covered = 0.0, 0
        for span in row.byte_spans:
            shared = min(end, span.end) - max(start, span.start)
            if shared > 0:
                added += shared * span.advantage
                covered += shared
        mean = added / (end - start) if end > start else 0.0
        lines.append(Line(one.decode().rstrip("\n"), row.episode + mean, covered > 0))
        start += len(one)
    return lines


def near_credit(lines: list[Line], context: int) -> list[Line]:
    """Lines that a group has, and some around them."""
    kept: set[int] = set()
    for i, line in enumerate(lines):
        if line.has_credit:
            kept.update(range(max(0, i - context), min(len(lines), i + context + 1)))
    return [lines[i] for i in sorted(kept)]


def draw(panels: dict[str, list[Line]], title: str, path: str) -> None:
    """Writes the picture; its format is that of the file's name."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    n_lines = max(len(lines) for lines in panels.values())
    limit = max(abs(line.advantage) for lines in panels.values() for line in lines) or 1.0
    size = (7.5 * len(panels), 1.2 + 0.19 * n_lines)
    figure, axes = plt.subplots(1, len(panels), figsize=size, squeeze=False, layout="constrained")
    for axis, (name, lines) in zip(axes[0], panels.items(), strict=True):
        for i, line in enumerate(lines):
            colour = "#2a7f3f" if line.advantage > 0 else "#b03030"
            strength = abs(line.advantage) / limit if line.has_credit else 0.0
            axis.barh(-i, line.advantage, height=0.9, color=colour, alpha=0.25 + 0.6 * strength)
            axis.text(
                1.25 * limit, -i, line.text[:72], family="monospace", fontsize=7, va="center",
                color="black" if line.has_credit else "#808080",
            )  # fmt: skip
        axis.axvline(0, color="black", linewidth=0.6)
        axis.set(xlim=(-1.1 * limit, 6 * limit), ylim=(-n_lines, 1), yticks=[], xlabel="advantage", title=name)
        axis.set_xticks([-limit, 0, limit], [f"{-limit:.2f}", "0", f"{limit:.2f}"])
        for side in ("left", "right", "top"):
            axis.spines[side].set_visible(False)
    figure.suptitle(title)
    figure.savefig(path, dpi=150)
    plt.close(figure)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dumps", nargs="+")
    parser.add_argument("--task")
    parser.add_argument("--list", action="store_true", help="tell the tasks, with their groups")
    parser.add_argument("--rollouts", type=int, default=2, metavar="N", help="the best, the worst, and so on inward")
    parser.add_argument("--context", type=int, default=2, metavar="N", help="lines around those with credit")
    parser.add_argument("-o", "--output", default="credit.png")
    given = parser.parse_args(arguments)
    credit = hunkwise.credit(given.dumps, format="verl")
    n_groups: dict[str, int] = {row.task: 0 for row in credit.rows if row is not None}
    for group in credit.groups:
        n_groups[group.task] += 1
    if given.list:
        for task, n in n_groups.items():
            print(f"{task}: {n} groups")
        return 0
    task = given.task or max(n_groups, key=lambda name: n_groups[name])
    rows = [row for row in credit.rows if row is not None and row.task == task]
    if not rows:
        print(f"there is no task {task!r}; there are {', '.join(n_groups)}", file=sys.stderr)
        return 1
    texts = texts_of(given.dumps)
    by_score = sorted({(row.score or 0.0, row.trajectory) for row in rows}, reverse=True)
    # The best, the worst, the second best, ...
    inward = [by_score.pop(0 if i % 2 == 0 else -1)[1] for i in range(len(by_score))]
    panels = {}
    for trajectory in inward[: given.rollouts]:
        lines: list[Line] = []
        score = 0.0
        for row in sorted((one for one in rows if one.trajectory == trajectory), key=lambda one: one.turn):
            lines += near_credit(lines_of(texts[task, trajectory, row.turn], row), given.context)
            score = row.score or 0.0
        if lines:
            panels[f"rollout {trajectory}, score {score:g}"] = lines
    if not panels:
        print(f"no line of {task} is in a group", file=sys.stderr)
        return 1
    draw(panels, f"{task}: {n_groups[task]} groups", given.output)
    print(f"{given.output}: {', '.join(panels)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
