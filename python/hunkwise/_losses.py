"""Policy losses over arrays of any library on the host: value, gradient and metrics in one call.

`hunkwise.torch` has the same as autograd functions. docs/losses.md has the formulas and what each preset reproduces.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from . import _arrays, _hunkwise
from ._config import _plain
from ._credit import Credit

Numbers = np.ndarray[Any, np.dtype[np.float32]]
LossConfig = str | Mapping[str, Any]

PRESETS = (
    "grpo", "bnpo", "dapo", "dr_grpo", "gspo", "cispo_trl", "cispo_verl", "sapo", "luspo", "ppo", "didpo",
)  # fmt: skip
"""Names of losses that `config` knows."""


@dataclass(frozen=True)
class Spans:
    """Advantages as one number for each row and spans that differ: a token has `episode[row]` plus its span's
    number."""

    episode: Any
    """float32 `[rows]`."""
    starts: Any
    """int64 `[spans]`: first token of the span, in its row."""
    ends: Any
    """int64 `[spans]`: one past its last token."""
    advantages: Any
    """float32 `[spans]`."""
    offsets: Any
    """int64 `[rows + 1]`: row i has the spans `offsets[i]` to `offsets[i + 1]`, sorted and disjoint."""

    @classmethod
    def of_credit(cls, credit: Credit, rows: Sequence[int] | None = None) -> Spans:
        """The token spans of a credit's rows (all of them by default), shifted by nothing: tokens of the response.

        Raises `ValueError` for a row that was not used or whose tokens are not known.
        """
        episode, starts, ends, advantages, offsets = [], [], [], [], [0]
        for i in range(len(credit)) if rows is None else rows:
            row = credit.rows[i]
            if row is None or row.token_spans is None:
                raise ValueError(f"row {i} has no tokens with credit")
            episode.append(row.episode)
            for span in row.token_spans:
                starts.append(span.start)
                ends.append(span.end)
                advantages.append(span.advantage)
            offsets.append(len(starts))
        return cls(
            np.array(episode, np.float32),
            np.array(starts, np.int64),
            np.array(ends, np.int64),
            np.array(advantages, np.float32),
            np.array(offsets, np.int64),
        )


@dataclass(frozen=True)
class PolicyLoss:
    """A policy loss in parts that add up over micro-batches and ranks."""

    loss: float
    """`numerator / denominator`, 0 where there is no token."""
    numerator: float
    denominator: float
    rows: np.ndarray[Any, np.dtype[np.float64]]
    """Value of each row; their sum is the numerator."""
    metrics: dict[str, float]
    grad_log_prob: Numbers | None = None
    """Gradient of `upstream * loss`, of the shape of `log_prob`."""
    grad_entropy: Numbers | None = None
    token_loss: Numbers | None = None
    """Each token's share of the loss."""


@dataclass(frozen=True)
class LogitsLoss(PolicyLoss):
    """A policy loss from logits."""

    log_prob: Numbers | None = None
    grad: Any = None
    """By the logits: the array that was given where it was written over them."""


@dataclass(frozen=True)
class LinearLoss(PolicyLoss):
    """A policy loss from hidden states."""

    log_prob: Numbers | None = None
    """NaN for a token that was left out, since it can change neither loss nor gradient."""
    grad_hidden: Any = None
    grad_weight: Numbers | None = None


def loss_config(config: LossConfig = "grpo", /, **changes: Any) -> dict[str, Any]:
    """A configuration with every field: a preset's name, or a mapping whose `preset` gives what it leaves out.

    >>> loss_config("dapo", beta=0.01)["surrogate"]["high"]
    0.28
    """
    if changes:
        given = {"preset": config} if isinstance(config, str) else _plain(config)
        config = {**given, **changes}
    made: dict[str, Any] = json.loads(_hunkwise.loss_config(_json(config)))
    return made


def _json(config: LossConfig) -> str:
    return json.dumps(config if isinstance(config, str) else _plain(config))


def policy_loss(
    log_prob: Any,
    mask: Any,
    advantages: Any,
    *,
    old: Any = None,
    reference: Any = None,
    rollout: Any = None,
    entropy: Any = None,
    offsets: Any = None,
    config: LossConfig = "grpo",
    denominator: float | None = None,
    upstream: float = 1.0,
    grad: bool = True,
    token_loss: bool = False,
    threads: int = 0,
) -> PolicyLoss:
    """The policy loss over log-probs, with its gradient and metrics in one pass.

    Arrays of tokens are `[rows, tokens]`, or flat with `offsets` (`cu_seqlens`); all have the shape of `log_prob`, in
    float32, bfloat16 or float16, and arithmetic is float32. `mask` is 0 or 1 (any dtype): where it is 0 nothing is
    read. `advantages`: one for each token, one for each row, or `Spans`. Without `old` the ratio is 1 with its
    gradient. `denominator`: the count over all micro-batches and ranks, where it is not this call's.

    Raises `ValueError` or `TypeError` with the name of what does not fit.
    """
    inputs = _Inputs(log_prob=log_prob, mask=mask, advantages=advantages, offsets=offsets)
    inputs.add(old=old, reference=reference, rollout=rollout, entropy=entropy)
    outputs: dict[str, Any] = {}
    if grad:
        outputs["grad_log_prob"] = np.empty(inputs.shape, np.float32)
        if entropy is not None:
            outputs["grad_entropy"] = np.empty(inputs.shape, np.float32)
    if token_loss:
        outputs["token_loss"] = np.empty(inputs.shape, np.float32)
    found = _hunkwise.policy_loss(
        inputs.triples(), inputs.rows, _json(config), denominator, upstream, _triples(outputs), threads
    )
    return PolicyLoss(**_fields(found), **outputs)


def reference_policy_loss(
    log_prob: Any,
    mask: Any,
    advantages: Any,
    *,
    old: Any = None,
    reference: Any = None,
    rollout: Any = None,
    entropy: Any = None,
    offsets: Any = None,
    config: LossConfig = "grpo",
    denominator: float | None = None,
) -> PolicyLoss:
    """`policy_loss` in float64, formula by formula: slow, and what to compare a trainer with. Outputs are float64."""
    inputs = _Inputs(log_prob=log_prob, mask=mask, advantages=advantages, offsets=offsets)
    inputs.add(old=old, reference=reference, rollout=rollout, entropy=entropy)
    outputs: dict[str, Any] = {name: np.empty(inputs.shape) for name in ("grad_log_prob", "grad_entropy", "token_loss")}
    found = _hunkwise.reference_policy_loss(
        inputs.triples(), inputs.rows, _json(config), denominator, _triples(outputs)
    )
    return PolicyLoss(**_fields(found), **outputs)


def token_logprob(
    logits: Any,
    targets: Any,
    *,
    temperature: Any = 1.0,
    n_vocab: int | None = None,
    mask: Any = None,
    entropy: bool = False,
    threads: int = 0,
) -> tuple[Numbers, Numbers | None]:
    """Log-prob of each target under `softmax(logits / temperature)`, and the entropy of that distribution in nats.

    `logits`: `[..., columns]` in float32, bfloat16 or float16, read once. `targets`: integers of the shape before the
    columns; one outside the vocabulary gives NaN. `temperature`: one, or one for each target. `n_vocab`: columns from
    here on are padding, never read. Where `mask` is 0 nothing is read, and the result is 0.
    """
    rows = _Logits(logits, targets, temperature, n_vocab)
    if mask is not None:
        rows.arrays["mask"] = _arrays.mask(mask, "mask")
    outputs = {"log_prob": np.empty(rows.shape, np.float32)}
    if entropy:
        outputs["entropy"] = np.empty(rows.shape, np.float32)
    _hunkwise.token_logprob(rows.triples(), rows.n_columns, rows.n_vocab, rows.temperature, _triples(outputs), threads)
    return outputs["log_prob"], outputs.get("entropy")


def logits_loss(
    logits: Any,
    targets: Any,
    mask: Any,
    advantages: Any,
    *,
    old: Any = None,
    reference: Any = None,
    rollout: Any = None,
    offsets: Any = None,
    temperature: Any = 1.0,
    n_vocab: int | None = None,
    config: LossConfig = "grpo",
    denominator: float | None = None,
    upstream: float = 1.0,
    grad: Any = True,
    threads: int = 0,
) -> LogitsLoss:
    """The policy loss of the targets' log-probs, with its gradient by the logits.

    `logits`: `[rows, tokens, columns]`, or `[tokens, columns]` with `offsets`. `grad`: `True` makes an array for it,
    `"in_place"` writes it over the logits, which are lost then (no memory of their size is taken), `False` computes the
    loss alone, and an array of the shape and dtype of the logits is written to. Otherwise as `policy_loss`.
    """
    rows = _Logits(logits, targets, temperature, n_vocab)
    inputs = _Inputs(targets=targets, mask=mask, advantages=advantages, offsets=offsets)
    inputs.add(old=old, reference=reference, rollout=rollout)
    in_place = isinstance(grad, str)
    if in_place and grad != "in_place":
        raise ValueError(f'grad is {grad!r}; it is True, False, "in_place" or an array')
    outputs: dict[str, Any] = {"log_prob": np.empty(inputs.shape, np.float32)}
    written: Any = None
    arrays = {**inputs.arrays, **rows.arrays}
    if in_place:
        written = logits
        arrays["logits"] = _arrays.write(logits, "logits")
    elif grad is not False:
        written = _empty_like(logits, rows.arrays["logits"]) if grad is True else grad
        outputs["grad"] = _arrays.write(written, "grad")
    found = _hunkwise.logits_loss(
        _triples(arrays), inputs.rows, rows.n_columns, rows.n_vocab, rows.temperature, _json(config),
        denominator, upstream, in_place, _triples(outputs), threads,
    )  # fmt: skip
    return LogitsLoss(**_fields(found), log_prob=outputs["log_prob"], grad=written)


def linear_loss(
    hidden: Any,
    weight: Any,
    targets: Any,
    mask: Any,
    advantages: Any,
    *,
    old: Any = None,
    reference: Any = None,
    rollout: Any = None,
    offsets: Any = None,
    temperature: Any = 1.0,
    n_vocab: int | None = None,
    config: LossConfig = "grpo",
    denominator: float | None = None,
    upstream: float = 1.0,
    grad: bool = True,
    grad_weight: Any = None,
    threads: int = 0,
) -> LinearLoss:
    """The policy loss of the logits `hidden @ weight.T`, which never exist all at once.

    `hidden`: `[rows, tokens, n_hidden]`, or `[tokens, n_hidden]` with `offsets`: the states that predict the targets.
    `weight`: `[columns, n_hidden]`. `grad_weight`: a float32 array of its shape that the gradient is added to; made
    where there is none. Otherwise as `logits_loss`.
    """
    states, head = _arrays.floats(hidden, "hidden"), _arrays.floats(weight, "weight")
    if len(head.shape) != 2 or not states.shape or states.shape[-1] != head.shape[1]:
        raise ValueError(f"hidden {list(states.shape)} and weight {list(head.shape)} do not fit")
    rows = _Logits(None, targets, temperature, n_vocab, n_columns=head.shape[0])
    inputs = _Inputs(targets=targets, mask=mask, advantages=advantages, offsets=offsets)
    inputs.add(old=old, reference=reference, rollout=rollout)
    if states.shape[:-1] != inputs.shape:
        raise ValueError(f"hidden {list(states.shape)} and targets {list(inputs.shape)} do not fit")
    outputs: dict[str, Any] = {"log_prob": np.empty(inputs.shape, np.float32)}
    grad_hidden: Any = None
    if grad:
        grad_hidden = _empty_like(hidden, states)
        outputs["grad_hidden"] = _arrays.write(grad_hidden, "grad_hidden")
        if grad_weight is None:
            grad_weight = np.zeros(head.shape, np.float32)
    if grad_weight is not None:
        outputs["grad_weight"] = _arrays.write(grad_weight, "grad_weight")
        if outputs["grad_weight"].shape != head.shape:
            raise ValueError(f"grad_weight is {list(outputs['grad_weight'].shape)}, weight {list(head.shape)}")
    arrays = {**inputs.arrays, **rows.arrays, "hidden": states, "weight": head}
    found = _hunkwise.linear_loss(
        _triples(arrays), inputs.rows, rows.n_columns, rows.n_vocab, rows.temperature, _json(config),
        denominator, upstream, _triples(outputs), threads,
    )  # fmt: skip
    return LinearLoss(**_fields(found), log_prob=outputs["log_prob"], grad_hidden=grad_hidden, grad_weight=grad_weight)


class _Inputs:
    """Arrays of tokens, all of one shape, with mask, advantages and layout."""

    def __init__(self, *, mask: Any, advantages: Any, offsets: Any, log_prob: Any = None, targets: Any = None) -> None:
        self.arrays: dict[str, _arrays.Array] = {}
        if targets is not None:
            first, self.name = _arrays.integers(targets, "targets"), "targets"
        else:
            first, self.name = _arrays.floats(log_prob, "log_prob"), "log_prob"
            self.arrays["log_prob"] = first
        self.shape = first.shape
        self.rows = (1, first.size)
        n_rows = 1
        if offsets is not None:
            of_rows = _arrays.integers(offsets, "offsets")
            self.arrays["offsets"] = of_rows
            n_rows = of_rows.size - 1
        elif len(self.shape) == 2:
            self.rows = self.shape
            n_rows = self.shape[0]
        elif len(self.shape) != 1:
            raise ValueError(
                f"{self.name} has the shape {list(self.shape)}; it is [rows, tokens], or flat with offsets"
            )
        self.arrays["mask"] = self._of_tokens("mask", _arrays.mask(mask, "mask"))
        self._advantages(advantages, n_rows)

    def add(self, **arrays: Any) -> None:
        """Further arrays of tokens; those that are `None` are absent."""
        for name, value in arrays.items():
            if value is not None:
                self.arrays[name] = self._of_tokens(name, _arrays.floats(value, name))

    def triples(self) -> dict[str, _arrays.Triple]:
        return _triples(self.arrays)

    def _of_tokens(self, name: str, array: _arrays.Array) -> _arrays.Array:
        if array.shape != self.shape:
            raise ValueError(f"{name} has the shape {list(array.shape)}, {self.name} {list(self.shape)}")
        return array

    def _advantages(self, advantages: Any, n_rows: int) -> None:
        if isinstance(advantages, Spans):
            for name in ("starts", "ends", "offsets"):
                self.arrays[f"span_{name}"] = _arrays.integers(getattr(advantages, name), f"spans.{name}")
            self.arrays["span_advantages"] = _as_f32(advantages.advantages, "spans.advantages")
            self.arrays["episode"] = _as_f32(advantages.episode, "spans.episode")
            return
        array = _arrays.floats(advantages, "advantages")
        if array.shape == self.shape:
            self.arrays["advantages"] = array
        elif array.size == n_rows and array.shape in ((n_rows,), (n_rows, 1)):
            self.arrays["episode"] = _as_f32(advantages, "advantages")
        else:
            raise ValueError(
                f"advantages have the shape {list(array.shape)}: one for each token of {self.name} {list(self.shape)} "
                f"or one for each of {n_rows} rows"
            )


class _Logits:
    """Logits with their targets and temperature."""

    def __init__(
        self, logits: Any, targets: Any, temperature: Any, n_vocab: int | None, n_columns: int | None = None
    ) -> None:
        of_tokens = _arrays.integers(targets, "targets")
        self.arrays = {"targets": of_tokens}
        self.shape = of_tokens.shape
        if n_columns is None:
            values = _arrays.floats(logits, "logits")
            if values.shape[:-1] != self.shape:
                raise ValueError(f"logits {list(values.shape)} and targets {list(self.shape)} do not fit")
            self.arrays["logits"] = values
            n_columns = values.shape[-1]
        self.n_columns = n_columns
        self.n_vocab = n_columns if n_vocab is None else n_vocab
        self.temperature = 1.0
        if isinstance(temperature, (int, float)):
            self.temperature = float(temperature)
        else:
            heat = _as_f32(temperature, "temperature")
            if heat.size != of_tokens.size:
                raise ValueError(f"temperature has {heat.size} values for {of_tokens.size} targets")
            self.arrays["temperature"] = heat

    def triples(self) -> dict[str, _arrays.Triple]:
        return _triples(self.arrays)


def _as_f32(value: Any, name: str) -> _arrays.Array:
    """Numbers of rows, spans or targets, which are float32 whatever the tokens are."""
    array = _arrays.floats(value, name)
    if array.dtype == "float32":
        return array
    if _arrays.is_torch(array.owner):
        return _arrays.read(array.owner.float(), name)
    return _arrays.read(_arrays.as_numpy(array).astype(np.float32), name)


def _empty_like(value: Any, array: _arrays.Array) -> Any:
    """A new array of the library, shape and dtype of another, to be written."""
    if _arrays.is_torch(value):
        return value.new_empty(array.shape)
    if array.dtype == "bfloat16":
        raise TypeError("NumPy has no bfloat16: give the array that the gradient is written to, or a torch tensor")
    return np.empty(array.shape, array.dtype)


def _triples(arrays: Mapping[str, Any]) -> dict[str, _arrays.Triple]:
    made = {}
    for name, array in arrays.items():
        made[name] = (array if isinstance(array, _arrays.Array) else _arrays.write(array, name)).triple()
    return made


def _fields(found: tuple[float, float, list[float], dict[str, float]]) -> dict[str, Any]:
    numerator, denominator, rows, metrics = found
    loss = numerator / denominator if denominator else 0.0
    return {
        "loss": loss,
        "numerator": numerator,
        "denominator": denominator,
        "rows": np.array(rows, np.float64),
        "metrics": metrics,
    }
