#!/usr/bin/env python3
"""The table against other libraries: results compared first, then both sides timed in turns. Started by `run`."""

import argparse
import datetime
import importlib.metadata
import json
import pathlib
import platform
import subprocess
import sys

import expected
import recurrence
import windows
from worker import Problem, Worker, WorkerError

ETA = 0.8


def synthetic(worker, n_diffs, characters=False, seed=5):
    return Problem(worker, "synthetic", n_diffs=n_diffs, seed=seed, characters=characters)


def rows_windows(worker, options):
    yield from windows.window_rows(synthetic(worker, 8), "8 made-up diffs, tokens", ETA)


def rows_large(worker, options):
    yield from windows.window_rows(synthetic(worker, 32), "32 made-up diffs, tokens", ETA)


def rows_characters(worker, options):
    yield from windows.window_rows(synthetic(worker, 8, characters=True), "8 made-up diffs, characters", ETA)


class NotThere(Exception):
    """A task was asked for that no dump has."""


def rows_files(worker, options):
    there = {file: worker("tasks", source=file)["tasks"] for file in options.files}
    absent = sorted(set(options.task or ()) - {task for tasks in there.values() for task in tasks})
    if options.files and absent:
        raise NotThere(f"no dump has the task {absent[0]}")
    for file, tasks in there.items():
        for task in options.task or tasks:
            if task not in tasks:
                continue
            problem = Problem(worker, "task", source=file, task=task)
            if not len(problem.windows):
                print(f"{task}: has no code, left out", file=sys.stderr, flush=True)
                continue
            yield from windows.window_rows(problem, task, ETA)


def rows_threads(worker, options):
    yield windows.thread_row(synthetic(worker, 32), "32 made-up diffs, tokens, best per turn", ETA)


def rows_embedding(worker, options):
    problem = synthetic(worker, 8)
    for dim in (256, 768):
        yield windows.embedding_row(problem, "8 made-up diffs", ETA, dim)


def rows_list(worker, options):
    for name, characters in (("tokens", False), ("characters", True)):
        yield from windows.list_rows(synthetic(worker, 32, characters), name, ETA, 3000)


def rows_pipeline(worker, options):
    for source in options.files or ["made-up:6x32x8x50"]:
        shape = worker("batch", source=source, tasks=options.task)
        if not shape["tasks"]:
            continue
        name = pathlib.Path(source).name
        for threads in (1, 2):
            runs = [worker("credit", threads=threads) for _ in range(4)][1:]
            yield {
                "row": f"whole pipeline, {name}, {threads} thread{'s' * (threads > 1)}",
                "peer": "none",
                "shape": f"{shape['tasks']} tasks, {shape['rollouts']} rollouts, {shape['turns']} turns, {runs[0]['lines']} lines",
                "hits": f"{runs[0]['hits']} groups",
                "ours_seconds": sorted(run["seconds"] for run in runs)[1],
                "our_runs": len(runs),
            }


def rows_selection(worker, options):
    # Only here: CI has no apricot.
    import selection

    for neighbours in (125, 1235):
        yield selection.row(worker, neighbours)


def rows_losses(worker, options):
    # Only here: torch is gigabytes.
    import losses

    yield from losses.rows(worker, options.small)


ROWS = {
    "windows": rows_windows,
    "large": rows_large,
    "characters": rows_characters,
    "files": rows_files,
    "threads": rows_threads,
    "embedding": rows_embedding,
    "list": rows_list,
    "selection": rows_selection,
    "pipeline": rows_pipeline,
    "losses": rows_losses,
}


def check(worker):
    """Equality alone, on small shapes; names what was compared."""
    for n_diffs, characters in ((3, False), (2, True)):
        problem = synthetic(worker, n_diffs, characters)
        matching, n_occurrences = windows.check_windows(problem, ETA)
        yield f"{len(problem.windows)} windows: {len(matching)} pairs and {n_occurrences} occurrences equal rapidfuzz's"
    worker.write_text("no_code.jsonl", '{"task": "a", "text": "no edit", "outcome": 1}\n')
    problem = Problem(worker, "task", source=str(worker.folder / "no_code.jsonl"), task="a")
    windows.check_windows(problem, ETA)
    yield f"{len(problem.windows)} windows, of a task without code: nothing found"
    problem = synthetic(worker, 3)
    for _ in windows.list_rows(problem, "tokens", ETA, 300, is_timed=False):
        pass
    yield "a list of 300 windows: pairs equal rapidfuzz's"
    windows.check_forms(problem, ETA)
    yield f"{len(problem.windows)} windows: strings and lists of str have the same scores in rapidfuzz"
    windows.embedding_row(problem, "made-up diffs", ETA, 64, is_timed=False)
    yield f"{len(problem.windows)} windows by line vectors: pairs equal numpy's"


def machine():
    model = platform.processor() or platform.machine()
    info = pathlib.Path("/proc/cpuinfo")
    if info.exists():
        models = [line.split(":", 1)[1].strip() for line in info.read_text().splitlines() if line.startswith("model name")]
        if models:
            model = f"{models[0]}, {len(models)} cores"
    return model


def about(worker, options):
    versions = {"rustc": subprocess.run(["rustc", "--version"], capture_output=True, text=True).stdout.split()[1]}
    said = worker("info")
    versions["hunkwise"] = said["version"]
    commit = subprocess.run(["git", "describe", "--always", "--dirty"], capture_output=True, text=True)
    if commit.returncode == 0:
        versions["hunkwise"] += f" ({commit.stdout.strip()})"
    versions["python"] = platform.python_version()
    for peer in ("rapidfuzz", "numpy", "scipy", "apricot-select", "numba", "torch"):
        try:
            versions[peer] = importlib.metadata.version(peer)
        except importlib.metadata.PackageNotFoundError:
            continue
    now = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC")
    command = " ".join(["benches/peers/run", *options.asked])
    return {"date": now, "machine": machine(), "simd": said["simd"], "versions": versions, "command": command}


def seconds(value):
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if value >= size:
            return f"{value / size:.3g} {unit}"
    return f"{value:.3g} s"


def markdown(said, table):
    versions = ", ".join(f"{name} {version}" for name, version in said["versions"].items())
    yield f"{said['date']}; {said['machine']}; SIMD path {said['simd']}; {versions}; eta {ETA}."
    yield "Results were equal before anything was timed. One thread on each side unless a row says otherwise. Medians; the"
    yield f"range is that of the ratio over turns. `{said['command']}`"
    yield ""
    yield "| operation | shape | hits | ours | peer | peer's time | ratio (range, turns) |"
    yield "| --- | --- | --- | --- | --- | --- | --- |"
    for row in table:
        cells = [row["row"], row["shape"], row["hits"], seconds(row["ours_seconds"]), row["peer"]]
        if "peer_seconds" in row:
            spread = f"{row['ratio']:.3g} ({row['ratio_min']:.3g}–{row['ratio_max']:.3g}, {row['turns']})"
            cells += [seconds(row["peer_seconds"]), spread]
        else:
            cells += ["", ""]
        yield "| " + " | ".join(cells) + " |"


def main():
    parser = argparse.ArgumentParser(prog="benches/peers/run", description=__doc__)
    parser.add_argument("--worker", required=True, help=argparse.SUPPRESS)
    parser.add_argument("--only", action="append", choices=sorted(ROWS), help="these rows alone; may be given again")
    parser.add_argument("--files", nargs="+", default=[], metavar="DUMP", help="dumps of rollouts for `files` and `pipeline`")
    parser.add_argument("--task", action="append", help="tasks of the dumps for `files`; all of them without")
    parser.add_argument("--json", metavar="OUT", help="write the table as JSON too")
    parser.add_argument("--simd", choices=["scalar", "avx2"], help="our instructions at most; without it the widest there are")
    parser.add_argument("--recurrence", nargs="+", metavar="SOURCE", help="say how much edits recur in these, and time nothing")
    parser.add_argument("--small", action="store_true", help="small shapes for `losses`")
    parser.add_argument("--check", action="store_true", help="compare results on small shapes and time nothing")
    options = parser.parse_args()
    options.asked = [argument for argument in sys.argv[1:] if argument not in ("--worker", options.worker)]
    worker = Worker(options.worker, options.simd)
    if options.recurrence:
        try:
            print("\n".join(recurrence.table(worker, options.recurrence, ETA)))
        finally:
            worker.close()
        return 0
    if options.check:
        try:
            for line in check(worker):
                print(line, flush=True)
        except (expected.Different, WorkerError) as error:
            print(f"WRONG: {error}", file=sys.stderr)
            return 1
        finally:
            worker.close()
        return 0
    failed = False
    table = []
    try:
        for name, make in ROWS.items():
            if name not in (options.only or ROWS.keys() - {"losses"}):
                continue
            try:
                for row in make(worker, options):
                    table.append(row)
                    print(f"{row['row']}: equal; {row.get('ratio', float('nan')):.4g}", file=sys.stderr, flush=True)
            except expected.Different as error:
                failed = True
                print(f"{name}: WRONG: {error}", file=sys.stderr, flush=True)
            except (NotThere, WorkerError) as error:
                failed = True
                print(f"{name}: not measured: {error}", file=sys.stderr, flush=True)
        said = about(worker, options)
    finally:
        worker.close()
    print("\n".join(markdown(said, table)))
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps({**said, "eta": ETA, "failed": failed, "rows": table}, indent=1) + "\n")
    return 1 if failed or not table else 0


if __name__ == "__main__":
    sys.exit(main())
