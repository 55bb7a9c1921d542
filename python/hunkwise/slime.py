"""DiDPO in slime, by two of its paths:

    --custom-reward-post-process-path hunkwise.slime.credit
    --custom-advantage-function-path hunkwise.slime.advantages

`credit` runs once for each rollout step, where all samples with their texts are together; `advantages` runs on every
rank and takes its part, context parallelism included. What goes between is the list of rewards: each is a float, A^E,
that carries the advantages of its tokens.

Parameters come from the file that the environment names, `HUNKWISE_CONFIG=credit.toml` (docs/method.md), on the node of
the rollout manager. Token bytes come from the tokenizer of `--hf-checkpoint`.

Written against slime 624b824 (2026-08-21).
"""

from __future__ import annotations

import functools
import importlib
import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from . import _credit, _peers
from ._config import as_config
from ._tokens import TokenBytes

__all__ = ["TokenReward", "advantages", "credit"]

Numbers = np.ndarray[Any, np.dtype[np.float32]]


class TokenReward(float):
    """A reward with the advantage of every token of its response."""

    advantages: Numbers
    """float32 `[response_length]`."""

    def __new__(cls, value: float, advantages: Numbers) -> TokenReward:
        made = super().__new__(cls, value)
        made.advantages = advantages
        return made

    def __reduce__(self) -> tuple[Any, ...]:
        return TokenReward, (float(self), self.advantages)


@functools.lru_cache(maxsize=2)
def _tokenizer(checkpoint: str) -> TokenBytes:
    transformers = importlib.import_module("transformers")
    return TokenBytes(transformers.AutoTokenizer.from_pretrained(checkpoint, trust_remote_code=True))


def credit(args: Any, samples: Sequence[Any]) -> tuple[list[float], list[float]]:
    """slime's `custom_reward_post_process`: raw rewards, and rewards that are `TokenReward`.

    Of each `Sample` are read `group_index` (the task), `rollout_id` or else `index` (the rollout; samples that share it
    are its turns, in their order), `tokens`, `response_length`, `loss_mask` and the reward. A removed sample takes part
    in the groups and trains nothing.

    Raises `ValueError` for a sample without a group, or whose tokens and mask do not fit.
    """
    tokenizer = _tokenizer(args.hf_checkpoint)
    raw = [sample.get_reward_value(args) for sample in samples]
    turns: dict[tuple[Any, Any], int] = {}
    rows = []
    for at, (sample, reward) in enumerate(zip(samples, raw, strict=True)):
        if sample.group_index is None:
            raise ValueError(f"samples[{at}].group_index is None; the samples of a prompt are compared by it")
        n = sample.response_length
        mask = [1] * n if sample.loss_mask is None else list(sample.loss_mask)
        ids = _numbers(sample.tokens)
        if len(mask) != n or len(ids) < n:
            raise ValueError(
                f"samples[{at}] has {len(ids)} tokens and a loss mask of {len(mask)} for a response of {n}"
            )
        rollout = sample.index if sample.rollout_id is None else sample.rollout_id
        # Without either the sample is a rollout by itself.
        trajectory = f"sample {at}" if rollout is None else rollout
        turn = turns.get((sample.group_index, trajectory), 0)
        turns[sample.group_index, trajectory] = turn + 1
        rows.append(
            _peers.row(tokenizer, sample.group_index, trajectory, turn, ids[len(ids) - n :], mask, float(reward))
        )
    config = as_config(os.environ.get("HUNKWISE_CONFIG"))
    made = _credit.credit(rows, config)
    rewards: list[float] = []
    for at, (of_row, dense) in enumerate(zip(made.rows, made.advantages, strict=True)):
        if of_row is None or dense is None:
            reason = next((reason for place, reason in made.flagged if place == at), "no tokens")
            raise ValueError(f"samples[{at}] cannot be used: {reason}")
        rewards.append(TokenReward(of_row.episode, dense.copy()))
    return raw, rewards


def advantages(args: Any, rollout_data: dict[str, Any]) -> None:
    """slime's `custom_advantage_function`: sets `advantages` and `returns`, lists of float32 tensors of this rank's
    tokens.

    Raises `TypeError` where the rewards do not come from `credit`, and `ValueError` where tokens do not fit.
    """
    torch = importlib.import_module("torch")
    found = []
    for at, (reward, like) in enumerate(zip(rollout_data["rewards"], rollout_data["kl"], strict=True)):
        if not isinstance(reward, TokenReward):
            raise TypeError(
                f"rewards[{at}] is {type(reward).__name__}: give --custom-reward-post-process-path "
                "hunkwise.slime.credit too"
            )
        of_tokens = torch.from_numpy(np.asarray(reward.advantages, np.float32))
        if len(of_tokens) != len(like):
            slice_of = importlib.import_module("slime.backends.megatron_utils.cp_utils").slice_log_prob_with_cp
            lengths = rollout_data["total_lengths"][at], rollout_data["response_lengths"][at]
            of_tokens = slice_of(of_tokens, *lengths)
        if len(of_tokens) != len(like):
            raise ValueError(f"sample {at} has {len(of_tokens)} advantages for {len(like)} tokens of this rank")
        found.append(of_tokens.to(device=like.device))
    rollout_data["advantages"] = found
    rollout_data["returns"] = [one.clone() for one in found]


def _numbers(ids: Any) -> list[int]:
    values: list[int] = ids.tolist() if hasattr(ids, "tolist") else list(ids)
    return values
