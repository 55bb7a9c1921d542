"""DiDPO in verl, without a fork: `pip install hunkwise` beside verl, then

    algorithm.adv_estimator=didpo                                     # A^E + lambda A^D on every token
    actor_rollout_ref.actor.policy_loss.loss_mode=hunkwise_vanilla    # optional: the loss in one pass

verl 0.9 loads the entry point `verl.plugins` while it is imported, in every process; earlier versions take
`VERL_USE_EXTERNAL_MODULES=hunkwise.verl`. Importing this module imports nothing of verl: it waits for verl's own
modules and registers when they come. `python -m hunkwise doctor verl` says what was registered.

A^E is verl's GRPO, computed by verl itself, KL in the reward and rejected tokens included; with lambda 0 the numbers
are verl's. Parameters of the credit go under `+algorithm.hunkwise`, by the names of docs/method.md:
`+algorithm.hunkwise.advantage.lambda=1.2`. A row of the batch has the turns that its mask shows: each run of trained
tokens is one; rows of a session (agent loops with several outputs) are turns in their order.

Written against verl 0.9.1, trainer V1 (`trainer.use_v1=true`, the default). The trainers of `verl.experimental` and V0
compute advantages elsewhere and are not reached.
"""

from __future__ import annotations

import contextvars
import functools
import time
from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple

from . import _credit
from ._config import Config
from ._hooks import when_imported
from ._tokens import TokenBytes

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["ESTIMATOR", "LOSSES", "register", "policy_loss", "rows_of_batch"]

ESTIMATOR = "didpo"
"""Name for `algorithm.adv_estimator`."""

LOSSES = ("hunkwise_vanilla", "hunkwise_gspo", "hunkwise_sapo", "hunkwise_cispo")
"""Names for `policy_loss.loss_mode`: verl's losses of the names after the underscore, with verl's parameters."""

_ALGORITHMS = "verl.trainer.ppo.core_algos"
_TRAINER = "verl.trainer.ppo.v1.trainer_base"


def register() -> None:
    """Registers with verl: at once with the modules of verl that are imported, with the others when they come.

    Twice is once.
    """
    when_imported(_ALGORITHMS, _register_functions)
    when_imported(_TRAINER, _hook_trainer)


def _register_functions(core_algos: ModuleType) -> None:
    for name in LOSSES:
        core_algos.register_policy_loss(name)(functools.partial(policy_loss, name.removeprefix("hunkwise_")))
    core_algos.register_adv_est(ESTIMATOR)(_estimator)


def _estimator(**_: Any) -> Any:
    """What verl calls where the hook is not in the way: the registry's call has no text, so there is nothing to add."""
    raise RuntimeError(
        f"adv_estimator={ESTIMATOR} was reached outside PPOTrainer._compute_advantage of verl's V1 trainer, where the "
        "texts of the rollouts are known; set trainer.use_v1=true, and see `python -m hunkwise doctor verl`"
    )


class _Step(NamedTuple):
    """The call of `_compute_advantage` that is running."""

    trainer: Any
    batch: Any
    metrics: dict[str, Any]


_step: contextvars.ContextVar[_Step | None] = contextvars.ContextVar("hunkwise_step", default=None)


def _hook_trainer(trainer_base: ModuleType) -> None:
    trainer = trainer_base.PPOTrainer
    outer = trainer._compute_advantage
    if hasattr(outer, "_hunkwise"):
        return
    inner = trainer_base.compute_advantage_for_multi_trajectories

    @functools.wraps(outer)
    def _compute_advantage(self: Any, batch: Any, metrics: dict[str, Any]) -> Any:
        token = _step.set(_Step(self, batch, metrics))
        try:
            return outer(self, batch, metrics)
        finally:
            _step.reset(token)

    @functools.wraps(inner)
    def compute(data: Any, batch_keys: list[str], adv_estimator: Any, *args: Any, **kwargs: Any) -> Any:
        step = _step.get()
        if adv_estimator != ESTIMATOR or step is None:
            return inner(data, batch_keys, adv_estimator, *args, **kwargs)
        data = inner(data, batch_keys, "grpo", *args, **kwargs)
        fields = trainer_base.tq.kv_batch_get(
            keys=step.batch.keys, partition_id=step.batch.partition_id, select_fields=["responses"]
        )
        began = time.perf_counter()
        tokenizer = _token_bytes(step.trainer)
        scores = data.batch["token_level_rewards"].sum(dim=-1).tolist()
        is_padding = [bool(tag.get("is_padding", False)) for tag in step.batch.tags or [{}] * len(batch_keys)]
        rows = rows_of_batch(
            tokenizer, batch_keys, fields["responses"].unbind(), data.batch["response_mask"], scores, is_padding
        )
        credit = _add(data.batch["advantages"], rows, _config_of(step.trainer.config.algorithm))
        # For an outcome the returns are the advantages, as in verl's estimators.
        data.batch["returns"] = data.batch["advantages"].clone()
        if credit is not None:
            step.metrics.update(credit.to_metrics())
        step.metrics["timing_s/hunkwise"] = time.perf_counter() - began
        return data

    vars(_compute_advantage)["_hunkwise"] = True
    trainer._compute_advantage = _compute_advantage
    vars(trainer_base)["compute_advantage_for_multi_trajectories"] = compute


def _token_bytes(trainer: Any) -> TokenBytes:
    """The bytes of the trainer's tokens, kept with it."""
    kept = getattr(trainer, "_hunkwise_tokens", None)
    if kept is None:
        kept = trainer._hunkwise_tokens = TokenBytes(trainer.tokenizer)
    return kept


def _config_of(algorithm: Any) -> Config:
    given = algorithm.get("hunkwise", None)
    return Config() if given is None else Config.from_dict(given)


def rows_of_batch(
    tokenizer: TokenBytes,
    keys: Sequence[str],
    responses: Sequence[Tensor],
    response_mask: Tensor,
    scores: Sequence[float],
    is_padding: Sequence[bool] | None = None,
) -> list[dict[str, Any] | None]:
    """Rollouts for `hunkwise.credit` from a batch of verl's; `None` for a row that is padding or has no token.

    `keys`: `{uid}_{session}_{index}`, task, rollout and turn of each row. `responses`: token ids of each row, int64
    `[its length]`. `response_mask`: `[rows, longest]`, 1 on trained tokens. `scores`: reward of each row; that of a
    session's last row is the rollout's, as in verl's GRPO.

    Raises `ValueError` for a key of another form, and for a token id that the tokenizer lacks.
    """
    last: dict[tuple[str, str], tuple[int, float]] = {}
    places = []
    for key, score in zip(keys, scores, strict=True):
        parts = key.rsplit("_", 2)
        if len(parts) != 3 or not parts[2].isdigit():
            raise ValueError(f"the key {key!r} is not {{uid}}_{{session}}_{{index}}")
        task, session, turn = parts[0], parts[1], int(parts[2])
        places.append((task, session, turn))
        if turn >= last.get((task, session), (-1, 0.0))[0]:
            last[task, session] = (turn, score)
    rows: list[dict[str, Any] | None] = []
    for i, (task, session, turn) in enumerate(places):
        ids = responses[i].tolist()
        if not ids or (is_padding is not None and is_padding[i]):
            rows.append(None)
            continue
        text, ends = tokenizer.decode(ids)
        mask = response_mask[i, : len(ids)].bool().tolist()
        score = last[task, session][1]
        rows.append({
            "task": task, "trajectory": session, "turn": turn, "text": text, "token_ends": ends, "mask": mask,
            "outcome": None if score != score else score,
        })  # fmt: skip
    return rows


def _add(advantages: Tensor, rows: Sequence[Mapping[str, Any] | None], config: Config) -> _credit.Credit | None:
    """Adds A^D, and what else a token has beside A^E, where it lies; `None` where there is no row."""
    used = [i for i, row in enumerate(rows) if row is not None]
    if not used:
        return None
    credit = _credit.credit([row for row in rows if row is not None], config)
    for i, found in zip(used, credit.rows, strict=True):
        if found is not None and found.token_spans is not None:
            for span in found.token_spans:
                advantages[i, span.start : span.end] += span.advantage
    return credit


def policy_loss(
    kind: str,
    old_log_prob: Tensor,
    log_prob: Tensor,
    advantages: Tensor,
    response_mask: Tensor,
    loss_agg_mode: str = "token-mean",
    config: Any = None,
    rollout_is_weights: Tensor | None = None,
) -> tuple[Tensor, dict[str, float]]:
    """verl's policy loss `kind` (`vanilla`, `gspo`, `sapo`, `cispo`), value, gradient and metrics in one pass.

    Tensors are `[rows, tokens]`, float32, bfloat16 or float16 (arithmetic is float32), `response_mask` 0 or 1.
    `config` is verl's actor configuration: `clip_ratio`, `clip_ratio_low`, `clip_ratio_high`, `clip_ratio_c`,
    `tau_pos`, `tau_neg` and `global_batch_info`. Tensors of a GPU are copied to the host, and the gradient back.

    Returns the loss, a float32 scalar on the device of `log_prob`, and verl's metrics `actor/pg_clipfrac`,
    `actor/ppo_kl` and `actor/pg_clipfrac_lower`. Entropy and KL are added by verl.

    Raises `ValueError` for a `kind` or `loss_agg_mode` that is not known. Source: verl 0.9.1,
    `verl/trainer/ppo/core_algos.py`.
    """
    from . import torch as of_torch

    if config is None:
        raise ValueError("config is None; verl's actor configuration is needed")
    if rollout_is_weights is not None:
        # Every one of these losses is homogeneous in the advantage.
        advantages = advantages * rollout_is_weights
    host = [one.to("cpu") for one in (log_prob, response_mask, advantages, old_log_prob)]
    given, denominator, scale = _reduction(loss_agg_mode, response_mask, dict(config.global_batch_info or {}))
    loss, metrics = of_torch.policy_loss(
        host[0], host[1], host[2].detach(), old=host[3].detach(), config=_loss_config(kind, config) | given,
        denominator=denominator,
    )  # fmt: skip
    if scale != 1.0:
        loss = loss * scale
    return loss.to(log_prob.device), {
        "actor/pg_clipfrac": float(metrics["clip_fraction"]),
        "actor/ppo_kl": float(metrics["k1"]),
        "actor/pg_clipfrac_lower": float(metrics["clip_fraction_dual"]),
    }


def _loss_config(kind: str, config: Any) -> dict[str, Any]:
    low = config.clip_ratio if config.clip_ratio_low is None else config.clip_ratio_low
    high = config.clip_ratio if config.clip_ratio_high is None else config.clip_ratio_high
    made: dict[Any, dict[str, Any]] = {
        "vanilla": {"surrogate": {"type": "clip", "low": low, "high": high, "dual": config.get("clip_ratio_c", 3.0)}},
        "gspo": {
            "surrogate": {"type": "clip", "low": low, "high": high},
            "ratio": "sequence_token", "max_log_ratio": 10.0,
        },
        "sapo": {
            "surrogate": {"type": "sapo", "tau_positive": config.get("tau_pos", 1.0),
                          "tau_negative": config.get("tau_neg", 1.05)},
        },
        "cispo": {"surrogate": {"type": "cispo", "min": 1 - low, "max": 1 + high}},
    }  # fmt: skip
    if kind not in made:
        raise ValueError(f"kind is {kind!r}; it must be one of {', '.join(made)}")
    return {"preset": "bnpo", "count_empty_rows": False, **made[kind]}


def _reduction(mode: str, mask: Tensor, info: Mapping[str, Any]) -> tuple[dict[str, Any], float | None, float]:
    """Our reduction, its denominator where it is not that of the call, and a factor."""
    ranks = float(info.get("dp_size") or 1)
    n_tokens, n_rows = info.get("batch_num_tokens"), info.get("global_batch_size")
    over_tokens = None if n_tokens is None else float(n_tokens) / ranks
    over_rows = None if n_rows is None else float(n_rows) / ranks
    kinds: dict[str, Callable[[], tuple[dict[str, Any], float | None, float]]] = {
        "token-mean": lambda: ({"type": "token_mean"}, over_tokens, 1.0),
        "token-sum": lambda: ({"type": "token_sum"}, None, ranks),
        "seq-mean-token-sum": lambda: ({"type": "seq_mean_token_sum"}, over_rows, 1.0),
        "seq-mean-token-sum-norm": lambda: (
            {"type": "seq_mean_token_sum_norm", "length": int(info.get("loss_scale_factor") or mask.shape[-1])},
            over_rows, 1.0,
        ),
        "seq-mean-token-mean": lambda: ({"type": "seq_mean_token_mean"}, over_rows, 1.0),
    }  # fmt: skip
    if mode not in kinds:
        raise ValueError(f"loss_agg_mode is {mode!r}; it must be one of {', '.join(kinds)}")
    if ranks > 1 and (over_tokens if mode == "token-mean" else over_rows if mode != "token-sum" else ranks) is None:
        raise ValueError(f"loss_agg_mode {mode} on {ranks:g} ranks needs the count of the whole batch")
    reduction, denominator, scale = kinds[mode]()
    return {"reduction": reduction}, denominator, scale


register()
