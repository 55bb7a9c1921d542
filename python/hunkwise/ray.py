"""Credit for a Ray dataset of rollouts: tasks are spread over the cluster.

    import ray, hunkwise.ray

    rollouts = ray.data.read_json("rollouts/*.jsonl")
    with_credit = hunkwise.ray.credit(rollouts)
    with_credit.write_parquet("credit")

The rollouts of a task are brought together and computed by one worker; tasks know nothing of each other, so the result
is that of one process, bit for bit. A worker that dies is replaced by Ray, and its tasks are computed again.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from typing import Any

from . import _credit
from ._config import Config, as_config

__all__ = ["credit"]


def credit(
    dataset: Any,
    config: Config | Mapping[str, Any] | str | None = None,
    *,
    tokenizer: str | None = None,
    threads: int = 1,
    num_partitions: int | None = None,
) -> Any:
    """The rollouts with their credit, a `ray.data.Dataset`; it is computed when it is read.

    `dataset`: a `ray.data.Dataset` whose rows have the fields of docs/formats.md, or an iterable of such dicts; `task`
    must be among them. Fields that are null are absent. `tokenizer`: the path of a tokenizer.json on every node.
    `threads` of each worker: one, as a task of Ray has one CPU. `num_partitions`: of the shuffle by task; Ray's choice
    by default.

    Rows come back by task, with all their columns and three more: `advantages` (a list of float32, one for each token;
    null for a row that could not be used or whose tokens are not known), `episode` (A^E, float64) and `flagged` (why a
    row was not taken, or only in part; null for most).

    Raises `ValueError` for a dataset without `task`. Errors of the parameters are raised here, those of rows are in
    `flagged`. Source: Ray 2.56, `ray.data.grouped_data.GroupedData.map_groups`.
    """
    import ray.data

    config = as_config(config)
    if not isinstance(dataset, ray.data.Dataset):
        dataset = ray.data.from_items(_items(dataset))
    columns = dataset.columns() or []
    if "task" not in columns:
        raise ValueError(f"the dataset has no column `task`; it has {', '.join(columns)}")
    taken = {"advantages", "episode", "flagged"} & set(columns)
    if taken:
        raise ValueError(f"the dataset has a column `{min(taken)}` already; drop it before credit is added")
    work = functools.partial(_of_task, config=config, tokenizer=tokenizer, threads=threads)
    return dataset.groupby("task", num_partitions=num_partitions).map_groups(work, batch_format="pyarrow")


def _items(rows: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    items = [dict(row) for row in rows]
    if not items:
        raise ValueError("no rollouts were given")
    return items


def _of_task(table: Any, config: Config, tokenizer: str | None, threads: int) -> Any:
    """The rows of a task, a `pyarrow.Table`, with their credit."""
    import pyarrow as pa

    rows = [{name: value for name, value in row.items() if value is not None} for row in table.to_pylist()]
    found = _credit.credit(rows, config, tokenizer=tokenizer, threads=threads)
    reasons: list[str | None] = [None] * len(rows)
    for place, reason in found.flagged:
        before = reasons[int(place)]
        reasons[int(place)] = reason if before is None else f"{before}; {reason}"
    episode = [None if row is None else row.episode for row in found.rows]
    table = table.append_column("advantages", pa.array(found.advantages, pa.list_(pa.float32())))
    table = table.append_column("episode", pa.array(episode, pa.float64()))
    return table.append_column("flagged", pa.array(reasons, pa.string()))
