"""DiDPO in TRL: `DiDPOTrainer` in the place of `GRPOTrainer`.

    from hunkwise.trl import DiDPOTrainer

    trainer = DiDPOTrainer(model=..., reward_funcs=..., args=GRPOConfig(...), credit={"advantage": {"lambda": 1.2}})

TRL's own advantage stays A^E, with everything that `GRPOConfig` says of it; each token inside a snippet that recurs in
the rollouts of its prompt gets lambda A^D beside it. With lambda 0 the numbers are TRL's. Groups may be split over
processes: the completions are gathered, and every process computes the same credit.

Written against TRL 1.16. Mix `DiDPOMixin` into a subclass of `GRPOTrainer` of your own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from accelerate.utils import gather_object
from trl import GRPOTrainer

from . import _credit
from ._config import Config, as_config
from ._tokens import TokenBytes

__all__ = ["DiDPOMixin", "DiDPOTrainer"]


class DiDPOMixin:
    """Adds A^D to the advantages of a `GRPOTrainer`."""

    def __init__(self, *args: Any, credit: Config | Mapping[str, Any] | str | None = None, **kwargs: Any) -> None:
        """`credit`: parameters of the credit, as `hunkwise.credit` takes them; all else goes to the trainer."""
        self._credit_config = as_config(credit)
        self._token_bytes: TokenBytes | None = None
        self._scores: torch.Tensor | None = None
        super().__init__(*args, **kwargs)

    def _calculate_rewards(self, *args: Any, **kwargs: Any) -> torch.Tensor:
        rewards: torch.Tensor = super()._calculate_rewards(*args, **kwargs)  # type: ignore[misc]
        # [completions of all processes, reward functions]; as the trainer adds them up.
        weights = self.reward_weights.to(rewards.device)  # type: ignore[attr-defined]
        scores = (rewards * weights).nansum(dim=1)
        scores[torch.isnan(rewards).all(dim=1)] = torch.nan
        self._scores = scores
        return rewards

    def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> dict[str, Any]:
        output: dict[str, Any] = super()._generate_and_score_completions(inputs)  # type: ignore[misc]
        ids, mask = output["completion_ids"], output["completion_mask"]
        trained = mask * output["tool_mask"] if "tool_mask" in output else mask
        if self._token_bytes is None:
            self._token_bytes = TokenBytes(self._tokenizer)  # type: ignore[attr-defined]
        local = [self._row(*row) for row in zip(ids.tolist(), mask.tolist(), trained.tolist(), strict=True)]
        added, credit = self._added(gather_object(local))
        process = self.accelerator.process_index  # type: ignore[attr-defined]
        first = process * len(local)
        advantages = output["advantages"]
        if advantages.dim() == 1:
            advantages = advantages.unsqueeze(1).repeat(1, ids.shape[1])
        for row, spans in enumerate(added[first : first + len(local)]):
            for start, end, advantage in spans:
                advantages[row, start:end] += advantage
        # Where nothing is trained the advantage is not read; 0 there shows in dumps what is.
        output["advantages"] = advantages * trained
        mode = "train" if self.model.training else "eval"  # type: ignore[attr-defined]
        for name, value in credit.to_metrics().items():
            self._metrics[mode][name].append(value)  # type: ignore[attr-defined]
        return output

    def _row(self, ids: list[int], mask: list[int], trained: list[int]) -> dict[str, Any]:
        """A completion without its padding."""
        assert self._token_bytes is not None
        n = sum(mask)
        text, ends = self._token_bytes.decode(ids[:n])
        return {"text": text, "token_ends": ends, "mask": trained[:n]}

    def _added(self, rows: list[dict[str, Any]]) -> tuple[list[list[tuple[int, int, float]]], _credit.Credit]:
        """For each completion of all processes the spans of tokens with what is added to A^E."""
        mode = "train" if self.model.training else "eval"  # type: ignore[attr-defined]
        n_rollouts = self.num_generations if mode == "train" else self.num_generations_eval  # type: ignore[attr-defined]
        assert self._scores is not None
        for i, (row, score) in enumerate(zip(rows, self._scores.tolist(), strict=True)):
            # A completion without a token has no text that could be compared.
            row |= {"task": i // n_rollouts, "trajectory": i % n_rollouts}
            row["outcome"] = None if score != score else score
        used = [i for i, row in enumerate(rows) if len(row["mask"])]
        credit = _credit.credit([rows[i] for i in used], self._credit_config)
        added: list[list[tuple[int, int, float]]] = [[] for _ in rows]
        for i, found in zip(used, credit.rows, strict=True):
            if found is not None and found.token_spans is not None:
                added[i] = [(span.start, span.end, span.advantage) for span in found.token_spans]
        return added, credit


class DiDPOTrainer(DiDPOMixin, GRPOTrainer):
    """`GRPOTrainer` with DiDPO's diff advantage beside its own."""

    _tag_names = [*GRPOTrainer._tag_names, "hunkwise"]
