"""DiDPO in rLLM: before the trainer is made,

    import hunkwise.rllm

    hunkwise.rllm.install(tokenizer)

rLLM's estimator gives each trajectory its advantage, as it is configured; each token inside a snippet that recurs in
the trajectories of its group gets lambda A^D beside it, so that `step.advantage` becomes a list, one float for each
token of `step.response_ids`. With lambda 0 the numbers are rLLM's.

`credit(groups, tokenizer)` does the same for groups at hand, for a workflow that sets `step.advantage` itself
(`algorithm.use_precomputed_advantage=true`).

Written against rLLM 9beb6e0 (2026-08-15), whose Tinker backend takes lists. Its verl backend takes one number for a
trajectory (`update_dataproto_with_advantages`), so it is refused when it is imported after `install`.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import Any

from . import _credit, _peers
from ._config import Config, as_config
from ._hooks import when_imported
from ._tokens import TokenBytes

__all__ = ["credit", "install"]

# The modules that have taken the function by its name.
_FUNCTION = "collect_reward_and_advantage_from_trajectory_groups"
_MODULES = (
    "rllm.trainer.algorithms.advantage", "rllm.trainer.algorithms", "rllm.trainer.backend_protocol",
    "rllm.trainer.buffer", "rllm.trainer.tinker.transform",
)  # fmt: skip
_OF_NUMBERS = "rllm.trainer.verl.verl_backend"


def credit(
    groups: Sequence[Any],
    tokenizer: Any,
    config: Config | Mapping[str, Any] | str | None = None,
) -> _credit.Credit | None:
    """Makes `step.advantage` of every step a list, one float for each token of `step.response_ids`.

    `groups`: rLLM's `TrajectoryGroup`: trajectories that are compared, each with its `reward` and `steps`. A step whose
    `advantage` is a number keeps it as A^E; one without gets A^E of hunkwise. `tokenizer`: as `TokenBytes` takes it.

    Returns the credit, for its metrics; `None` where no step has a token. Raises `ValueError` for a step whose
    advantages are a list already, of another length than its tokens.
    """
    config = as_config(config)
    tokens = _peers.token_bytes(tokenizer)
    rows: list[_peers.Row | None] = []
    steps = []
    for number, group in enumerate(groups):
        # Groups are compared by themselves, whatever their names.
        for at, trajectory in enumerate(group.trajectories):
            for turn, step in enumerate(trajectory.steps):
                ids = list(step.response_ids)
                if isinstance(step.advantage, list) and len(step.advantage) != len(ids):
                    raise ValueError(
                        f"group {group.group_id!r}, trajectory {at}, step {turn}: {len(step.advantage)} advantages for "
                        f"{len(ids)} tokens"
                    )
                rows.append(
                    _peers.row(tokens, number, at, turn, ids, [1] * len(ids), trajectory.reward) if ids else None
                )
                steps.append(step)
    added, made = _peers.credit_of(rows, config)
    of_rows = iter([] if made is None else made.rows)
    for step, row, spans in zip(steps, rows, added, strict=True):
        found = next(of_rows) if row is not None else None
        base = step.advantage
        if base is None:
            base = 0.0 if found is None else found.episode
        values = list(base) if isinstance(base, list) else [float(base)] * len(step.response_ids)
        for start, end, advantage in spans:
            values[start:end] = [value + advantage for value in values[start:end]]
        step.advantage = values
    return made


def install(tokenizer: Any, config: Config | Mapping[str, Any] | str | None = None) -> None:
    """Has rLLM's trainers add A^D wherever they compute advantages; modules that are not imported yet too.

    Twice replaces the tokenizer and the parameters. Raises `RuntimeError` with rLLM's verl backend, here where it has
    been imported, else when it is.
    """
    when_imported(_OF_NUMBERS, _refuse)
    config, tokens = as_config(config), _peers.token_bytes(tokenizer)
    for name in _MODULES:
        when_imported(name, functools.partial(_wrap, tokens=tokens, config=config))


def _refuse(_: ModuleType) -> None:
    raise RuntimeError(
        "rLLM's verl backend takes one advantage for a trajectory, so credit by tokens cannot reach it; use its Tinker "
        "backend, or verl itself with hunkwise.verl"
    )


def _wrap(module: ModuleType, tokens: TokenBytes, config: Config) -> None:
    inner = getattr(module, _FUNCTION)
    inner = getattr(inner, "_hunkwise_inner", inner)

    @functools.wraps(inner)
    def collect(groups: Sequence[Any], algorithm_config: Any, collect_advantage: bool = True) -> dict[str, Any]:
        metrics: dict[str, Any] = inner(groups, algorithm_config, collect_advantage)
        if collect_advantage:
            made = credit(groups, tokens, config)
            if made is not None:
                metrics.update(made.to_metrics())
        return metrics

    vars(collect)["_hunkwise_inner"] = inner
    vars(module)[_FUNCTION] = collect
