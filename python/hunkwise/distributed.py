"""Credit for rollouts that are spread over the processes of `torch.distributed`.

    from hunkwise.distributed import credit

    of_rank = credit(my_rollouts, config)       # every process calls it, with its own rollouts
    of_rank.advantages                          # for the rollouts of this process

Rollouts of a task are compared with each other, wherever they are: those of a task that is on several processes go to
one of them, which computes the task and sends the credit back; tasks that are on one process stay there. The result is
that of one process with all rollouts, bit for bit.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch.distributed as dist

from . import _credit
from ._config import Config, as_config

__all__ = ["RankCredit", "credit"]

Row = Mapping[str, Any]


@dataclass(frozen=True)
class RankCredit:
    """The credit of a process's own rollouts, in the order in which they were given."""

    advantages: list[np.ndarray[Any, np.dtype[np.float32]] | None]
    """As `Credit.advantages`: one float32 for each token, `None` for a row without."""
    rows: list[_credit.CreditRow | None]
    """As `Credit.rows`."""
    flagged: list[tuple[int, str]]
    """Rows of this process that were not taken, or only in part, with the reason."""
    metrics: dict[str, float]
    """Of the tasks that this process computed."""


def credit(
    rollouts: Iterable[Row],
    config: Config | Mapping[str, Any] | str | None = None,
    *,
    group: dist.ProcessGroup | None = None,
    tokenizer: str | None = None,
    strict: bool = False,
    threads: int = 0,
) -> RankCredit:
    """`hunkwise.credit` over all processes of `group` (the default group where it is `None`).

    A collective: every process calls it, one without rollouts with an empty list. Rollouts are dicts that can be
    pickled; without `torch.distributed`, or with one process, nothing is sent. With a group of NCCL what is sent goes
    through the GPUs; a group of gloo keeps it on the hosts.

    Raises what `hunkwise.credit` raises on the process where it was raised, and `RuntimeError` that names this process
    on the others: none is left waiting.
    """
    rows = list(rollouts)
    config = as_config(config)
    if not dist.is_available() or not dist.is_initialized() or dist.get_world_size(group) == 1:
        places = [(0, at) for at in range(len(rows))]
        return _of_rank(_computed(rows, places, config, tokenizer, strict, threads), len(rows), 0)
    rank, n_ranks = dist.get_rank(group), dist.get_world_size(group)
    error: Exception | None = None
    try:
        sizes = _sizes(rows)
    except Exception as raised:
        error, sizes = raised, []
    _stop_together(error, group)
    owners = _owners(_all(sizes, group), n_ranks)
    of_owner: list[list[tuple[int, int, Row]]] = [[] for _ in range(n_ranks)]
    for at, (row, (task, _)) in enumerate(zip(rows, sizes, strict=True)):
        of_owner[owners.get(task, rank)].append((rank, at, row))
    here = sorted(_exchange(of_owner, group), key=lambda one: one[:2])
    found = _Found()
    try:
        places = [(of, at) for of, at, _ in here]
        found = _computed([row for _, _, row in here], places, config, tokenizer, strict, threads)
    except Exception as raised:
        error = raised
    _stop_together(error, group)
    back: list[list[_Result]] = [[] for _ in range(n_ranks)]
    for result in found.results:
        back[result.rank].append(result)
    found.results = _exchange(back, group)
    return _of_rank(found, len(rows), rank)


@dataclass(frozen=True)
class _Result:
    """Credit of a row, on its way home."""

    rank: int
    at: int
    advantages: np.ndarray[Any, np.dtype[np.float32]] | None
    row: _credit.CreditRow | None
    reasons: tuple[str, ...]


class _Found:
    """What a process has computed."""

    def __init__(self) -> None:
        self.results: list[_Result] = []
        self.metrics: dict[str, float] = {}


def _computed(
    rows: list[Row],
    places: list[tuple[int, int]],
    config: Config,
    tokenizer: str | None,
    strict: bool,
    threads: int,
) -> _Found:
    found = _Found()
    if not rows:
        return found
    made = _credit.credit(rows, config, tokenizer=tokenizer, strict=strict, threads=threads)
    reasons: dict[int, list[str]] = {}
    for place, reason in made.flagged:
        reasons.setdefault(int(place), []).append(reason)
    for i, ((rank, at), advantages, row) in enumerate(zip(places, made.advantages, made.rows, strict=True)):
        # A view of all rows would take all of them along.
        own = None if advantages is None else advantages.copy()
        found.results.append(_Result(rank, at, own, row, tuple(reasons.get(i, ()))))
    found.metrics = made.to_metrics()
    return found


def _of_rank(found: _Found, n_rows: int, rank: int) -> RankCredit:
    results = sorted(found.results, key=lambda one: one.at)
    if [one.at for one in results] != list(range(n_rows)):
        raise RuntimeError(f"rank {rank} sent {n_rows} rollouts and got credit for {len(results)}")
    flagged = [(one.at, reason) for one in results for reason in one.reasons]
    return RankCredit([one.advantages for one in results], [one.row for one in results], flagged, found.metrics)


def _sizes(rows: Sequence[Row]) -> list[tuple[str, int]]:
    """Task and size of each row: what it takes to compare it grows with its text."""
    sizes = []
    for at, row in enumerate(rows):
        if not isinstance(row, Mapping):
            raise TypeError(f"rollouts[{at}] is {type(row).__name__}; rollouts are dicts")
        text = row.get("text")
        sizes.append((str(row.get("task")), len(text) if isinstance(text, (str, bytes)) else 0))
    return sizes


def _owners(sizes: list[list[tuple[str, int]]], n_ranks: int) -> dict[str, int]:
    """For each task the process that computes it: its own where there is one, else the one with the least to do."""
    total: dict[str, int] = {}
    ranks: dict[str, set[int]] = {}
    for rank, of_rank in enumerate(sizes):
        for task, size in of_rank:
            total[task] = total.get(task, 0) + size
            ranks.setdefault(task, set()).add(rank)
    load = [0] * n_ranks
    owners: dict[str, int] = {}
    # The largest first; equal ones by name, so that every process finds the same.
    for task in sorted(total, key=lambda task: (-total[task], task)):
        candidates = ranks[task]
        owners[task] = min(candidates, key=lambda rank: (load[rank], rank))
        load[owners[task]] += total[task]
    return owners


def _all(value: Any, group: dist.ProcessGroup | None) -> list[Any]:
    gathered: list[Any] = [None] * dist.get_world_size(group)
    dist.all_gather_object(gathered, value, group)
    return gathered


def _exchange(of_rank: list[list[Any]], group: dist.ProcessGroup | None) -> list[Any]:
    """Sends each process its list; gives what this one gets, by sender."""
    rank, n_ranks = dist.get_rank(group), dist.get_world_size(group)
    mine: list[Any] = []
    for to in range(n_ranks):
        gathered: list[Any] | None = [None] * n_ranks if to == rank else None
        # What stays here is not pickled.
        sent = None if to == rank else of_rank[to]
        dist.gather_object(sent, gathered, group=group, group_dst=to)
        for sender, received in enumerate(gathered or []):
            mine.extend(of_rank[rank] if sender == rank else received)
    return mine


def _stop_together(error: Exception | None, group: dist.ProcessGroup | None) -> None:
    """Raises on every process where there is an error on one."""
    told = _all(None if error is None else f"{type(error).__name__}: {error}", group)
    if error is not None:
        raise error
    for rank, message in enumerate(told):
        if message is not None:
            raise RuntimeError(f"the credit of rank {rank} failed: {message}")
