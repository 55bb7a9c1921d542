"""DiDPO in NeMo-RL: before `grpo_train`,

    import hunkwise.nemo_rl

    hunkwise.nemo_rl.install(tokenizer)

The estimator that is configured gives A^E; each token inside a snippet that recurs in the samples of its prompt gets
lambda A^D beside it. With lambda 0 the numbers are NeMo-RL's. Texts reach the estimator in `grpo_train`, as
`repeated_batch["message_log"]`; with the data plane (`grpo_sync`) they do not, and that is an error here.

Written against NeMo-RL 7ea279a (2026-08-22).
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from types import ModuleType
from typing import Any

from . import _credit, _peers
from ._config import Config, as_config
from ._hooks import when_imported
from ._tokens import TokenBytes

__all__ = ["WithDiffs", "install"]

_MODULE = "nemo_rl.algorithms.grpo"
_FUNCTION = "_create_advantage_estimator"


class WithDiffs:
    """An advantage estimator of NeMo-RL's with A^D beside what it gives."""

    def __init__(self, estimator: Any, tokenizer: Any, config: Config | Mapping[str, Any] | str | None = None) -> None:
        """`estimator`: gives A^E. `tokenizer`: as `TokenBytes` takes it."""
        self.estimator = estimator
        self.config = as_config(config)
        self.credit: _credit.Credit | None = None
        """Of the last batch, for its metrics."""
        self._tokens: TokenBytes = _peers.token_bytes(tokenizer)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "estimator":
            raise AttributeError(name)
        return getattr(self.estimator, name)

    def compute_advantage(
        self, prompt_ids: Any, rewards: Any, mask: Any, repeated_batch: Any = None, **kwargs: Any
    ) -> Any:
        """Advantages `[samples, length]`, float.

        `prompt_ids` `[samples, prompt]` tell which samples are compared, `rewards` `[samples]` are their outcomes,
        `mask` `[samples, length]` is 1 on trained tokens, and `repeated_batch["message_log"]` has the messages of each
        sample with their `token_ids`, which together are its tokens.

        Raises `RuntimeError` without messages, and `ValueError` where they are longer than the mask.
        """
        advantages = self.estimator.compute_advantage(
            prompt_ids=prompt_ids, rewards=rewards, mask=mask, repeated_batch=repeated_batch, **kwargs
        )
        logs = None if repeated_batch is None or "message_log" not in repeated_batch else repeated_batch["message_log"]
        if logs is None:
            raise RuntimeError(
                "the batch has no message_log: NeMo-RL's data plane keeps texts from the estimator; set "
                "data_plane.enabled=false"
            )
        trained = mask.bool().tolist()
        outcomes = rewards.tolist()
        tasks: dict[tuple[int, ...], int] = {}
        rows: list[_peers.Row | None] = []
        firsts = []
        for i, (log, prompt) in enumerate(zip(logs, prompt_ids.tolist(), strict=True)):
            ids = [one for message in log for one in message["token_ids"].tolist()]
            if len(ids) > len(trained[i]):
                raise ValueError(f"message_log[{i}] has {len(ids)} tokens, the mask {len(trained[i])}")
            task = tasks.setdefault(tuple(prompt), len(tasks))
            of_sample = trained[i][: len(ids)]
            # What comes before the first trained token is the prompt.
            first = of_sample.index(True) if True in of_sample else len(ids)
            firsts.append(first)
            rows.append(
                _peers.row(self._tokens, task, i, 0, ids[first:], of_sample[first:], outcomes[i])
                if first < len(ids)
                else None
            )
        added, self.credit = _peers.credit_of(rows, self.config)
        # An expanded tensor shares its memory between tokens.
        advantages = advantages.clone()
        for i, spans in enumerate(added):
            for start, end, advantage in spans:
                advantages[i, firsts[i] + start : firsts[i] + end] += advantage
        return advantages


def install(tokenizer: Any, config: Config | Mapping[str, Any] | str | None = None) -> None:
    """Has `nemo_rl.algorithms.grpo` make its estimators with A^D; at once, or when it is imported.

    Twice replaces the tokenizer and the parameters.
    """
    config, tokens = as_config(config), _peers.token_bytes(tokenizer)

    def wrap(module: ModuleType) -> None:
        inner = getattr(module, _FUNCTION)
        inner = getattr(inner, "_hunkwise_inner", inner)

        @functools.wraps(inner)
        def create(master_config: Any) -> WithDiffs:
            return WithDiffs(inner(master_config), tokens, config)

        vars(create)["_hunkwise_inner"] = inner
        vars(module)[_FUNCTION] = create

    when_imported(_MODULE, wrap)
