#!/usr/bin/env python3
"""How much the edits of a task resemble each other: the figures that src/rollout/synthetic.rs is held to.

    benches/peers/run --recurrence SOURCE...

A source is a dump of rollouts, or a shape of made-up ones such as made-up:6x32x8x50. For each source the median task of
every figure, with its quartiles. Windows have 1 to 32 lines, and match from a similarity of 0.8.
"""

import numpy

from worker import Problem

FIGURES = [
    ("rollouts", "rollouts of a task"),
    ("turns", "turns with code, of a rollout"),
    ("lines", "code lines of a turn with code"),
    ("root_lines", "code lines of a root diff"),
    ("tokens", "code tokens of a line"),
    ("distinct_lines", "distinct lines, share of all"),
    ("distinct_windows", "distinct windows, share of all"),
    ("windows_per_start", "distinct windows for each line of code"),
    ("equal_turns", "other turns that have an equal window, share, mean over windows"),
    ("equal_rollouts", "other rollouts that have an equal window, share, mean over windows"),
    ("near_turns", "other turns that have a match, share, mean over windows"),
    ("near_rollouts", "other rollouts that have a match, share, mean over windows"),
    ("near_own_turns", "other turns of the rollout itself that have a match, share, mean over windows"),
    ("lone", "windows without a match in another rollout, share of distinct ones"),
    ("pairs", "matching pairs, of a distinct window"),
]


def of_task(worker, source, task, eta):
    """The figures of one task; none when it has fewer than two rollouts with code."""
    problem = Problem(worker, "task", source=source, task=task)
    rollout_of = worker.array("rollouts.u32").astype(numpy.int64)
    n = len(problem.windows)
    if n == 0:
        return None
    owner = numpy.repeat(numpy.arange(n), numpy.diff(problem.place_ends))
    n_turns = len(rollout_of)
    with_code = numpy.unique(problem.places[:, 0])
    rollouts = numpy.unique(rollout_of[with_code])
    if len(rollouts) < 2:
        return None
    n_lines = problem.shape["lines"]
    sizes = numpy.diff(problem.lines.offsets)
    turns_of_rollout = numpy.bincount(rollout_of[with_code], minlength=rollout_of.max() + 1)

    worker("occurrences", eta=eta, threads=2, out=str(worker.folder))
    ends = worker.array("ends.u32").astype(numpy.int64)
    best = worker.array("items.u32").reshape(-1, 4)[:, 0].astype(numpy.int64)
    window = numpy.repeat(numpy.arange(n), numpy.diff(ends))

    def counts(window, turn):
        """Turns, rollouts and, for the rollout of the first place, turns of it, of each window."""
        turns = numpy.unique(window * n_turns + turn)
        rollouts = numpy.unique(turns // n_turns * n_turns + rollout_of[turns % n_turns])
        home = rollout_of[problem.places[problem.place_ends[:-1], 0]]
        own = turns[rollout_of[turns % n_turns] == home[turns // n_turns]]
        return [numpy.bincount(x // n_turns, minlength=n) for x in (turns, rollouts, own)] + [turns_of_rollout[home]]

    equal_turns, equal_rollouts, *_ = counts(owner, problem.places[:, 0])
    near_turns, near_rollouts, own, n_own = counts(window, best)
    # A mean over places, as a turn sees it.
    weights = numpy.diff(problem.place_ends)
    several = n_own > 1

    def mean(values, keep=slice(None)):
        return float(numpy.average(values[keep], weights=weights[keep])) if weights[keep].sum() else float("nan")

    figures = {
        "rollouts": len(rollouts),
        "turns": len(with_code) / len(rollouts),
        "lines": n_lines / len(with_code),
        "root_lines": n_lines / (1 + problem.places[:, 1].max()),
        "tokens": problem.shape["tokens"] / n_lines,
        "distinct_lines": (sizes == 1).sum() / n_lines,
        "distinct_windows": n / len(problem.places),
        "windows_per_start": n / n_lines,
        "equal_turns": mean((equal_turns - 1) / max(1, len(with_code) - 1)),
        "equal_rollouts": mean((equal_rollouts - 1) / (len(rollouts) - 1)),
        "near_turns": mean((near_turns - 1) / max(1, len(with_code) - 1)),
        "near_rollouts": mean((near_rollouts - 1) / (len(rollouts) - 1)),
        "near_own_turns": mean((own - 1) / numpy.maximum(1, n_own - 1), several),
        "lone": float((near_rollouts == 1).mean()),
    }
    if n <= MOST_PAIR_WINDOWS:
        hits = worker("matches", eta=eta, embedding_weight=0.0, threads=2, out=None)["hits"]
        figures["pairs"] = 2 * hits / n
    return figures


# Above so many windows the list of pairs can take all memory.
MOST_PAIR_WINDOWS = 60_000


def table(worker, sources, eta):
    columns = []
    for source in sources:
        tasks = [of_task(worker, source, task, eta) for task in worker("tasks", source=source)["tasks"]]
        columns.append([task for task in tasks if task])
    yield "| figure | " + " | ".join(source.rsplit("/", 1)[-1] for source in sources) + " |"
    yield "| --- |" + " --- |" * len(sources)
    yield "| tasks with two rollouts or more | " + " | ".join(str(len(tasks)) for tasks in columns) + " |"
    for figure, what in FIGURES:
        cells = []
        for tasks in columns:
            values = [task[figure] for task in tasks if figure in task and not numpy.isnan(task[figure])]
            low, middle, high = numpy.percentile(values, [25, 50, 75]) if values else [float("nan")] * 3
            cells.append(f"{middle:.3g} ({low:.3g}–{high:.3g})" if values else "")
        yield f"| {what} | " + " | ".join(cells) + " |"
