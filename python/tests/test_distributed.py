"""Processes of torch.distributed (gloo) against one process, bit for bit."""

import pickle
import random

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import torch.distributed as dist  # noqa: E402
import torch.multiprocessing as mp  # noqa: E402

import hunkwise  # noqa: E402
from hunkwise import distributed  # noqa: E402

LINES = ["total = 0", "total += price", "for price in prices:", "return total", "return sum(prices)", "tax = 0.2"]


def rollouts(seed=1, n_tasks=5, n_rollouts=6):
    """Tasks whose rollouts share lines, one of them with a row that cannot be used."""
    source = random.Random(seed)
    rows = []
    for task in range(n_tasks):
        for rollout in range(n_rollouts):
            for turn in range(source.randrange(1, 3)):
                code = "\n".join(source.choice(LINES) for _ in range(source.randrange(2, 7)))
                text = f'<edit path="a.py"><code>\n{code}\n</code></edit>'
                ends = [*range(5, len(text), 5), len(text)]
                rows.append({
                    "task": f"task {task}", "trajectory": f"{rollout}", "turn": turn, "text": text,
                    "token_ends": ends, "outcome": float(rollout % 2),
                })  # fmt: skip
    rows.insert(7, {"task": "task 0", "trajectory": "bad", "text": 5})
    return rows


def shares(rows, split):
    """Rows of each of two processes: tasks split, or whole on one."""
    if split == "tasks are split":
        return [rows[::2], rows[1::2]]
    if split == "one process has none":
        return [[], rows]
    return [[row for row in rows if int(row["task"][-1]) % 2 == rank] for rank in (0, 1)]


def run(rank, folder, split, kind):
    dist.init_process_group("gloo", init_method=f"file://{folder}/rendezvous", rank=rank, world_size=2)
    mine = shares(rollouts(), split)[rank]
    try:
        if kind == "fails" and rank == 1:
            mine = [*mine, 5]
        strict = kind == "strict"
        found = distributed.credit(mine, {"advantage": {"lambda": 0.7}}, strict=strict, threads=1)
        result = (found.advantages, found.rows, found.flagged, found.metrics)
    except Exception as error:
        result = f"{type(error).__name__}: {error}"
    with open(f"{folder}/{rank}", "wb") as file:
        pickle.dump(result, file)
    dist.barrier()
    dist.destroy_process_group()


def on_two_processes(folder, split, kind="works"):
    mp.start_processes(run, args=(str(folder), split, kind), nprocs=2, start_method="spawn")
    return [pickle.loads((folder / str(rank)).read_bytes()) for rank in (0, 1)]


@pytest.mark.parametrize("split", ["tasks are split", "tasks are whole", "one process has none"])
def test_two_processes_compute_what_one_does(tmp_path, split):
    by_rank = on_two_processes(tmp_path, split)
    rows = rollouts()
    one = hunkwise.credit(rows, {"advantage": {"lambda": 0.7}}, threads=2)
    assert len(one.groups) > 5
    places = {id(row): at for at, row in enumerate(rows)}
    n_seen = 0
    for mine, (advantages, of_rows, flagged, metrics) in zip(shares(rows, split), by_rank, strict=True):
        assert len(advantages) == len(of_rows) == len(mine)
        for at, row in enumerate(mine):
            wanted = one.advantages[places[id(row)]]
            if wanted is None:
                assert advantages[at] is None and of_rows[at] is None
                assert [place for place, _ in flagged] == [at]
                continue
            assert advantages[at].dtype == np.float32
            np.testing.assert_array_equal(advantages[at], wanted)
            assert of_rows[at] == one.rows[places[id(row)]]
            n_seen += 1
        assert bool(metrics) == bool(mine)
    assert n_seen == len(rows) - 1
    n_rollouts = [metrics.get("hunkwise/trajectories", 0) for *_, metrics in by_rank]
    assert sum(n_rollouts) == one.to_metrics()["hunkwise/trajectories"]


def test_what_fails_on_one_process_is_raised_on_both(tmp_path):
    first, second = on_two_processes(tmp_path, "tasks are split", "fails")
    assert second.startswith("TypeError: rollouts[") and second.endswith("is int; rollouts are dicts")
    assert first.startswith("RuntimeError: the credit of rank 1 failed: TypeError: rollouts[")


def test_strict_is_strict_on_both(tmp_path):
    messages = on_two_processes(tmp_path, "tasks are split", "strict")
    assert sorted(message.split(":")[0] for message in messages) == ["RuntimeError", "ValueError"]


def test_without_processes_it_is_credit():
    rows = rollouts()
    found, wanted = distributed.credit(rows), hunkwise.credit(rows)
    for one, other in zip(found.advantages, wanted.advantages, strict=True):
        assert (one is None) == (other is None)
        if one is not None:
            np.testing.assert_array_equal(one, other)
    assert found.flagged == wanted.flagged
    assert distributed.credit([]).advantages == []
