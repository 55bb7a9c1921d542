"""DiDPO in SkyRL: a trainer of your own (`BasePPOExp.get_trainer`) with the mixin before SkyRL's.

    from hunkwise.skyrl import DiDPOMixin
    from skyrl.train.trainer import RayPPOTrainer

    class Trainer(DiDPOMixin, RayPPOTrainer):
        hunkwise_config = {"advantage": {"lambda": 1.2}}

SkyRL's estimator gives A^E, as it is configured; each token inside a snippet that recurs in the trajectories of its
prompt gets lambda A^D beside it. With lambda 0 the numbers are SkyRL's. Its registry of estimators gets no tokens, and
what a generator puts into `rewards` enters SkyRL's reward metrics, so the place for it is the trainer.

Written against SkyRL a956457 (2026-08-21). With `generator.step_wise_trajectories` each row is a turn.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from . import _credit, _peers
from ._config import Config, as_config
from ._tokens import TokenBytes

__all__ = ["DiDPOMixin", "add_credit"]


def add_credit(
    data: Any, tokenizer: TokenBytes, config: Config | Mapping[str, Any] | str | None = None
) -> _credit.Credit | None:
    """Adds A^D to `data["advantages"]` of a `TrainingInputBatch`, and makes its `returns` the same.

    Reads `sequences` `[rows, length]`, whose last tokens are the response, `response_mask`, `loss_mask`, `rewards` and
    `advantages` `[rows, response]`, aligned to the right, and `metadata`: `uids`, `is_last_step` where rows are turns,
    `pad_size` (rows at the end that were added to fill up).

    Returns the credit; `None` where no row has a token. Raises `ValueError` where `uids` are fewer than rows.
    """
    mask = data["response_mask"].bool()
    trained = (mask & (data["loss_mask"] > 0)).tolist()
    n_rows, width = mask.shape
    n_used = n_rows - int(data.metadata.get("pad_size", 0))
    uids = list(data.metadata["uids"])
    if len(uids) < n_used:
        raise ValueError(f"metadata has {len(uids)} uids for {n_used} rows")
    last = [bool(one) for one in data.metadata.get("is_last_step") or [True] * n_used]
    scores = data["rewards"].sum(dim=-1).tolist()
    lengths = mask.sum(dim=-1).tolist()
    ids = data["sequences"][:, -width:].tolist()
    rows: list[_peers.Row | None] = []
    trajectory, first = 0, 0
    for i in range(n_used):
        # The trajectory's score is that of its last step.
        end = next((at for at in range(i, n_used) if last[at]), n_used - 1)
        n = lengths[i]
        rows.append(
            _peers.row(
                tokenizer,
                str(uids[i]),
                trajectory,
                i - first,
                ids[i][width - n :],
                trained[i][width - n :],
                scores[end],
            )
            if n
            else None
        )
        if last[i]:
            trajectory, first = trajectory + 1, i + 1
    added, made = _peers.credit_of(rows, as_config(config))
    advantages = data["advantages"].clone()
    for i, spans in enumerate(added):
        for start, stop, advantage in spans:
            offset = width - lengths[i]
            advantages[i, offset + start : offset + stop] += advantage
    data["advantages"] = advantages
    data["returns"] = advantages.clone()
    return made


class DiDPOMixin:
    """Adds A^D to the advantages of a `RayPPOTrainer`."""

    hunkwise_config: Config | Mapping[str, Any] | str | None = None
    """Parameters of the credit, as `hunkwise.credit` takes them."""
    _hunkwise_tokens: TokenBytes | None = None

    def compute_advantages_and_returns(self, data: Any) -> Any:
        """SkyRL's, with A^D; `hunkwise/...` goes to the trainer's metrics."""
        mine: Any = self
        theirs: Any = super()
        data = theirs.compute_advantages_and_returns(data)
        if mine._hunkwise_tokens is None:
            mine._hunkwise_tokens = TokenBytes(mine.tokenizer)
        made = add_credit(data, mine._hunkwise_tokens, self.hunkwise_config)
        if made is not None:
            mine.all_metrics.update(made.to_metrics())
        return data
