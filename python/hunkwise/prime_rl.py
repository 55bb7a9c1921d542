"""DiDPO in prime-rl: in the orchestrator's process, before it begins,

    import hunkwise.prime_rl

    hunkwise.prime_rl.install(tokenizer)            # algorithms "grpo" and "max_rl" then add A^D

and in the trainer's configuration, for the loss in one pass:

    [trainer.loss]
    type = "custom"
    import_path = "hunkwise.prime_rl.loss"
    kwargs = { preset = "dapo" }

The algorithm gives A^E; each sampled token inside a snippet that recurs in the traces of its group gets lambda A^D
beside it. With lambda 0 the numbers are prime-rl's.

Written against prime-rl 559b447 (2026-08-21), which is not on PyPI.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import Any

from . import _credit, _peers
from ._config import Config, as_config
from ._hooks import when_imported

__all__ = ["add_credit", "install", "loss"]

_MODULE = "prime_rl.orchestrator.algo"
ALGORITHMS = ("grpo", "max_rl")
"""Algorithms whose credit is one number for a trace."""


def add_credit(
    traces: Sequence[Any], tokenizer: Any, config: Config | Mapping[str, Any] | str | None = None
) -> _credit.Credit | None:
    """Adds A^D to `node.advantages` of the traces of one group.

    A trace has `nodes`; of each are read `token_ids`, `mask` (True on sampled tokens) and `advantages`, one for each
    sampled token, which `assign_advantages` has set. Nodes with a sampled token are the turns, in their order;
    `trace.reward` is the outcome.

    Returns the credit; `None` where nothing was sampled. Raises `ValueError` for a node without advantages.
    """
    tokens = _peers.token_bytes(tokenizer)
    rows: list[_peers.Row | None] = []
    nodes = []
    for at, trace in enumerate(traces):
        sampled = [node for node in trace.nodes if any(node.mask)]
        for turn, node in enumerate(sampled):
            n_sampled = sum(map(bool, node.mask))
            if node.advantages is None or len(node.advantages) != n_sampled:
                n_given = 0 if node.advantages is None else len(node.advantages)
                raise ValueError(f"trace {at}, turn {turn}: {n_given} advantages for {n_sampled} sampled tokens")
            nodes.append(node)
            rows.append(_peers.row(tokens, "group", at, turn, list(node.token_ids), node.mask, trace.reward))
    added, made = _peers.credit_of(rows, as_config(config))
    for node, spans in zip(nodes, added, strict=True):
        if not spans:
            continue
        of_tokens = [0.0] * len(node.mask)
        for start, end, advantage in spans:
            of_tokens[start:end] = [advantage] * (end - start)
        more = [value for value, is_sampled in zip(of_tokens, node.mask, strict=True) if is_sampled]
        node.advantages = [value + other for value, other in zip(node.advantages, more, strict=True)]
    return made


def install(
    tokenizer: Any,
    config: Config | Mapping[str, Any] | str | None = None,
    algorithms: Sequence[str] = ALGORITHMS,
) -> None:
    """Puts algorithms that add A^D in the place of prime-rl's; at once, or when they are imported.

    Raises `ValueError` for an algorithm that prime-rl does not have. Twice replaces the tokenizer and the parameters.
    """
    config, tokens = as_config(config), _peers.token_bytes(tokenizer)

    def replace(module: ModuleType) -> None:
        classes: dict[str, Any] = module.ALGORITHM_CLASSES
        base = importlib.import_module(f"{_MODULE}.base")
        for name in algorithms:
            if name not in classes:
                raise ValueError(f"prime-rl has no algorithm {name!r}; it has {', '.join(sorted(classes))}")
            theirs = getattr(classes[name], "_hunkwise_inner", classes[name])
            classes[name] = _with_diffs(theirs, base.iter_trainable_traces, tokens, config)

    when_imported(_MODULE, replace)


def _with_diffs(theirs: Any, iter_trainable_traces: Any, tokens: Any, config: Config) -> Any:
    async def score_group(self: Any, episodes: list[Any]) -> None:
        await theirs.score_group(self, episodes)
        add_credit([trace for _, trace in iter_trainable_traces(episodes)], tokens, config)

    members = {
        "score_group": functools.wraps(theirs.score_group)(score_group), "_hunkwise_inner": theirs,
        "__module__": __name__, "__doc__": f"{theirs.__name__} with A^D beside its advantage.",
    }  # fmt: skip
    return type(f"DiDPO{theirs.__name__}", (theirs,), members)


def loss(inputs: Any, **config: Any) -> Any:
    """prime-rl's custom loss of one sequence: the sum over its tokens, which prime-rl divides by the count of all.

    `inputs`: `trainer_logprobs` with gradient, `inference_logprobs`, `ref_logprobs` or `None`, `advantages` and
    `loss_mask`, all `[tokens]`; `loss_weights`, `[tokens]`, where given multiply what is summed. `config`: fields of
    `hunkwise.loss_config` (`preset`, `surrogate`, `ratio`, `kl`, `beta`, ...); the reduction is the sum. Tensors of a
    GPU are copied to the host, and the gradient back.

    Returns prime-rl's `LossOutputs` with the metrics `clip_fraction`, `mismatch_kl` and `ratio_mean`. Raises
    `ValueError` for a `reduction`, for weights together with `beta`, and for negative weights.
    """
    torch = importlib.import_module("torch")
    from . import torch as of_torch

    if "reduction" in config:
        raise ValueError("reduction: prime-rl takes the sum over a sequence and divides it itself")
    log_prob, mask = inputs.trainer_logprobs, inputs.loss_mask
    advantages = inputs.advantages
    if inputs.loss_weights is not None:
        if config.get("beta"):
            raise ValueError("beta: weights of tokens would have to multiply the KL too, which is not supported")
        if bool((inputs.loss_weights[mask] < 0).any()):
            raise ValueError("loss_weights are below 0, which the clip of a loss cannot take")
        # The losses are homogeneous in the advantage.
        advantages = advantages * inputs.loss_weights
    on_host = [one.to("cpu") for one in (log_prob, mask, advantages, inputs.inference_logprobs)]
    reference = None if inputs.ref_logprobs is None else inputs.ref_logprobs.to("cpu").unsqueeze(0)
    value, metrics = of_torch.policy_loss(
        on_host[0].unsqueeze(0), on_host[1].unsqueeze(0), on_host[2].detach().unsqueeze(0),
        old=on_host[3].detach().unsqueeze(0), reference=reference,
        config={**config, "reduction": {"type": "token_sum"}},
    )  # fmt: skip
    outputs = importlib.import_module("prime_rl.trainer.rl.loss").LossOutputs
    device = log_prob.device
    told = {"clip_fraction": "clip_fraction", "mismatch_kl": "k3", "ratio_mean": "ratio_mean"}
    return outputs(
        loss=value.to(device),
        metrics={name: torch.as_tensor(metrics[ours]).float().to(device) for name, ours in told.items()},
    )
