"""The policy losses as autograd functions of torch, for tensors of the host.

    from hunkwise.torch import policy_loss

    loss, metrics = policy_loss(log_prob, mask, advantages, old=old, config="dapo")
    loss.backward()

Loss and gradient come from one pass in the forward; the backward multiplies. Arithmetic is float32 whatever the dtype
of the tensors, so autocast changes nothing. Each is one opaque operator under `torch.compile` (`logits_loss` with
`in_place=True` is left out of the graph). Gradients go to log-probs, entropies, logits, hidden states and weights,
never to old or reference log-probs or advantages.
"""

from __future__ import annotations

import json
from typing import Any

import torch
from torch import Tensor

from . import _arrays, _hunkwise, _losses
from ._losses import LossConfig, Spans

__all__ = ["linear_loss", "logits_loss", "policy_loss", "token_logprob"]

Metrics = dict[str, Tensor]

_NAMES: list[str] = _hunkwise.METRICS


def policy_loss(
    log_prob: Tensor,
    mask: Tensor,
    advantages: Tensor | Spans,
    *,
    old: Tensor | None = None,
    reference: Tensor | None = None,
    rollout: Tensor | None = None,
    entropy: Tensor | None = None,
    offsets: Tensor | None = None,
    config: LossConfig = "grpo",
    denominator: float | None = None,
) -> tuple[Tensor, Metrics]:
    """`hunkwise.policy_loss` with gradients to `log_prob` and `entropy`.

    Returns the loss, a float32 scalar, and the metrics as float64 scalars without gradient. A loss summed over
    micro-batches needs `denominator`, the count over all of them.
    """
    loss, _, _, metrics = _policy_loss(
        log_prob, mask, *_advantages(advantages), old, reference, rollout, entropy, offsets, _text(config),
        denominator,
    )  # fmt: skip
    return loss, _named(metrics)


def token_logprob(
    logits: Tensor,
    targets: Tensor,
    *,
    temperature: float | Tensor = 1.0,
    n_vocab: int | None = None,
    mask: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Log-prob of each target and entropy of its distribution, float32, without gradient: for old and reference
    policies.

    For a gradient by the logits use `logits_loss`, which needs no second array of their size.
    """
    with torch.no_grad():
        one, rows = _temperature(temperature)
        return _token_logprob(logits, targets, rows, mask, one, n_vocab)


def logits_loss(
    logits: Tensor,
    targets: Tensor,
    mask: Tensor,
    advantages: Tensor | Spans,
    *,
    old: Tensor | None = None,
    reference: Tensor | None = None,
    rollout: Tensor | None = None,
    offsets: Tensor | None = None,
    temperature: float | Tensor = 1.0,
    n_vocab: int | None = None,
    config: LossConfig = "grpo",
    denominator: float | None = None,
    in_place: bool = False,
) -> tuple[Tensor, Metrics, Tensor]:
    """`hunkwise.logits_loss` with a gradient to `logits`: loss, metrics, and log-probs without gradient.

    `in_place` writes the gradient over the logits in the forward: no memory of their size is taken, the logits are
    lost, and a second backward is refused. It is for logits that nothing else reads, such as those of the LM head.
    """
    one, rows = _temperature(temperature)
    arguments = (
        logits, targets, mask, *_advantages(advantages), old, reference, rollout, offsets, rows, one, n_vocab,
        _text(config), denominator,
    )  # fmt: skip
    if in_place:
        loss, log_prob, metrics = _overwrite(*arguments)
    else:
        loss, _, log_prob, metrics = _logits_loss(*arguments)
    return loss, _named(metrics), log_prob.detach()


def linear_loss(
    hidden: Tensor,
    weight: Tensor,
    targets: Tensor,
    mask: Tensor,
    advantages: Tensor | Spans,
    *,
    old: Tensor | None = None,
    reference: Tensor | None = None,
    rollout: Tensor | None = None,
    offsets: Tensor | None = None,
    temperature: float | Tensor = 1.0,
    n_vocab: int | None = None,
    config: LossConfig = "grpo",
    denominator: float | None = None,
) -> tuple[Tensor, Metrics, Tensor]:
    """`hunkwise.linear_loss` with gradients to `hidden` and `weight`: loss, metrics, and log-probs without gradient.

    The log-prob of a token that was left out, since it can change neither loss nor gradient, is NaN.
    """
    one, rows = _temperature(temperature)
    needs = torch.is_grad_enabled() and (hidden.requires_grad or weight.requires_grad)
    loss, _, _, log_prob, metrics = _linear_loss(
        hidden, weight, targets, mask, *_advantages(advantages), old, reference, rollout, offsets, rows, one, n_vocab,
        _text(config), denominator, needs,
    )  # fmt: skip
    return loss, _named(metrics), log_prob.detach()


def _named(metrics: Tensor) -> Metrics:
    return dict(zip(_NAMES, metrics.detach().unbind(), strict=True))


@torch.compiler.assume_constant_result
def _text(config: LossConfig) -> str:
    return _losses._json(config)


def _advantages(advantages: Any) -> tuple[Tensor, Tensor | None, Tensor | None, Tensor | None, Tensor | None]:
    """Advantages as tensors, which is all that an operator takes: those of tokens or rows, and four of spans."""
    if not isinstance(advantages, Spans):
        return torch.as_tensor(advantages), None, None, None, None
    ints = (torch.as_tensor(one).long() for one in (advantages.starts, advantages.ends, advantages.offsets))
    starts, ends, offsets = ints
    values = (torch.as_tensor(one).float() for one in (advantages.episode, advantages.advantages))
    episode, of_spans = values
    return episode, starts, ends, of_spans, offsets


def _given(
    advantages: Tensor, starts: Tensor | None, ends: Tensor | None, of_spans: Tensor | None, offsets: Tensor | None
) -> Tensor | Spans:
    return advantages if starts is None else Spans(advantages, starts, ends, of_spans, offsets)


def _temperature(temperature: float | Tensor) -> tuple[float, Tensor | None]:
    if isinstance(temperature, Tensor):
        return 1.0, temperature
    return float(temperature), None


def _tensor_of(metrics: dict[str, float]) -> Tensor:
    return torch.tensor([metrics[name] for name in _NAMES], dtype=torch.float64)


def _scalar(value: float) -> Tensor:
    return torch.tensor(value, dtype=torch.float32)


@torch.library.custom_op("hunkwise::policy_loss", mutates_args=())
def _policy_loss(
    log_prob: Tensor,
    mask: Tensor,
    advantages: Tensor,
    span_starts: Tensor | None,
    span_ends: Tensor | None,
    span_advantages: Tensor | None,
    span_offsets: Tensor | None,
    old: Tensor | None,
    reference: Tensor | None,
    rollout: Tensor | None,
    entropy: Tensor | None,
    offsets: Tensor | None,
    config: str,
    denominator: float | None,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    given = _given(advantages, span_starts, span_ends, span_advantages, span_offsets)
    inputs = _losses._Inputs(log_prob=log_prob, mask=mask, advantages=given, offsets=offsets)
    inputs.add(old=old, reference=reference, rollout=rollout, entropy=entropy)
    grad = torch.empty(log_prob.shape, dtype=log_prob.dtype)
    grad_entropy = torch.empty(0) if entropy is None else torch.empty(entropy.shape, dtype=entropy.dtype)
    outputs = {"grad_log_prob": _arrays.write(grad, "grad")}
    if entropy is not None:
        outputs["grad_entropy"] = _arrays.write(grad_entropy, "grad_entropy")
    found = _hunkwise.policy_loss(
        inputs.triples(), inputs.rows, config, denominator, 1.0, _losses._triples(outputs), torch.get_num_threads()
    )
    fields = _losses._fields(found)
    return _scalar(fields["loss"]), grad, grad_entropy, _tensor_of(fields["metrics"])


@_policy_loss.register_fake
def _(
    log_prob, mask, advantages, span_starts, span_ends, span_advantages, span_offsets, old, reference, rollout,
    entropy, offsets, config, denominator,
):  # fmt: skip
    grad_entropy = torch.empty(0) if entropy is None else torch.empty(entropy.shape, dtype=entropy.dtype)
    return (
        torch.empty((), dtype=torch.float32),
        torch.empty(log_prob.shape, dtype=log_prob.dtype),
        grad_entropy,
        torch.empty(len(_NAMES), dtype=torch.float64),
    )


def _save_policy(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    _, grad, grad_entropy, metrics = output
    ctx.has_entropy = inputs[10] is not None
    ctx.save_for_backward(grad, grad_entropy)
    ctx.set_materialize_grads(False)


def _policy_backward(ctx: Any, upstream: Tensor | None, *_: Any) -> tuple[Tensor | None, ...]:
    grads: list[Tensor | None] = [None] * 14
    if upstream is not None:
        grad, grad_entropy = ctx.saved_tensors
        grads[0] = _times(grad, upstream)
        if ctx.has_entropy:
            grads[10] = _times(grad_entropy, upstream)
    return tuple(grads)


def _times(grad: Tensor, upstream: Tensor) -> Tensor:
    """The product in float32, rounded once."""
    return (grad.float() * upstream.float()).to(grad.dtype)


_policy_loss.register_autograd(_policy_backward, setup_context=_save_policy)


@torch.library.custom_op("hunkwise::token_logprob", mutates_args=())
def _token_logprob(
    logits: Tensor,
    targets: Tensor,
    temperatures: Tensor | None,
    mask: Tensor | None,
    temperature: float,
    n_vocab: int | None,
) -> tuple[Tensor, Tensor]:
    log_prob, entropy = _losses.token_logprob(
        logits,
        targets,
        temperature=temperature if temperatures is None else temperatures,
        n_vocab=n_vocab,
        mask=mask,
        entropy=True,
        threads=torch.get_num_threads(),
    )
    assert entropy is not None
    return torch.from_numpy(log_prob), torch.from_numpy(entropy)


@_token_logprob.register_fake
def _(logits, targets, temperatures, mask, temperature, n_vocab):
    shape = targets.shape
    return torch.empty(shape, dtype=torch.float32), torch.empty(shape, dtype=torch.float32)


def _from_logits(
    logits: Tensor,
    targets: Tensor,
    mask: Tensor,
    advantages: Tensor | Spans,
    old: Tensor | None,
    reference: Tensor | None,
    rollout: Tensor | None,
    offsets: Tensor | None,
    temperatures: Tensor | None,
    temperature: float,
    n_vocab: int | None,
    config: str,
    denominator: float | None,
    grad: Any,
) -> tuple[Tensor, Tensor, Tensor]:
    found = _losses.logits_loss(
        logits,
        targets,
        mask,
        advantages,
        old=old,
        reference=reference,
        rollout=rollout,
        offsets=offsets,
        temperature=temperature if temperatures is None else temperatures,
        n_vocab=n_vocab,
        config=json.loads(config),
        denominator=denominator,
        grad=grad,
        threads=torch.get_num_threads(),
    )
    return _scalar(found.loss), torch.from_numpy(found.log_prob), _tensor_of(found.metrics)


@torch.library.custom_op("hunkwise::logits_loss", mutates_args=())
def _logits_loss(
    logits: Tensor,
    targets: Tensor,
    mask: Tensor,
    advantages: Tensor,
    span_starts: Tensor | None,
    span_ends: Tensor | None,
    span_advantages: Tensor | None,
    span_offsets: Tensor | None,
    old: Tensor | None,
    reference: Tensor | None,
    rollout: Tensor | None,
    offsets: Tensor | None,
    temperatures: Tensor | None,
    temperature: float,
    n_vocab: int | None,
    config: str,
    denominator: float | None,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    given = _given(advantages, span_starts, span_ends, span_advantages, span_offsets)
    grad = torch.empty(logits.shape, dtype=logits.dtype)
    loss, log_prob, metrics = _from_logits(
        logits, targets, mask, given, old, reference, rollout, offsets, temperatures, temperature, n_vocab, config,
        denominator, grad,
    )  # fmt: skip
    return loss, grad, log_prob, metrics


@_logits_loss.register_fake
def _(logits, targets, *_rest):
    return (
        torch.empty((), dtype=torch.float32),
        torch.empty(logits.shape, dtype=logits.dtype),
        torch.empty(targets.shape, dtype=torch.float32),
        torch.empty(len(_NAMES), dtype=torch.float64),
    )


def _save_logits(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    ctx.save_for_backward(output[1])
    ctx.set_materialize_grads(False)


def _logits_backward(ctx: Any, upstream: Tensor | None, *_: Any) -> tuple[Tensor | None, ...]:
    (grad,) = ctx.saved_tensors
    first = None if upstream is None else _times(grad, upstream)
    return (first, *[None] * 16)


_logits_loss.register_autograd(_logits_backward, setup_context=_save_logits)


class _Overwrite(torch.autograd.Function):
    """`logits_loss` whose gradient takes the place of the logits."""

    @staticmethod
    def forward(ctx: Any, logits: Tensor, *arguments: Any) -> tuple[Tensor, Tensor, Tensor]:
        targets, mask, *rest = arguments
        advantages, rest = _given(*rest[:5]), rest[5:]
        needs = ctx.needs_input_grad[0]
        old, reference, rollout, offsets, temperatures, temperature, n_vocab, config, denominator = rest
        loss, log_prob, metrics = _from_logits(
            logits.detach(), targets, mask, advantages, old, reference, rollout, offsets, temperatures, temperature,
            n_vocab, config, denominator, "in_place" if needs else False,
        )  # fmt: skip
        ctx.grad = logits.detach() if needs else None
        ctx.mark_non_differentiable(log_prob, metrics)
        ctx.set_materialize_grads(False)
        return loss, log_prob, metrics

    @staticmethod
    def backward(ctx: Any, upstream: Tensor | None, *_: Any) -> tuple[Tensor | None, ...]:
        grad, ctx.grad = ctx.grad, None
        if grad is None:
            raise RuntimeError(
                "the gradient of logits_loss(in_place=True) was used before: it lies where the logits were, and can be "
                "scaled once; give in_place=False for a second backward"
            )
        # The same memory once more.
        first = None if upstream is None else grad.mul_(upstream.to(grad.dtype))
        return (first, *[None] * 16)


@torch.compiler.disable
def _overwrite(*arguments: Any) -> tuple[Tensor, Tensor, Tensor]:
    made: tuple[Tensor, Tensor, Tensor] = _Overwrite.apply(*arguments)
    return made


@torch.library.custom_op("hunkwise::linear_loss", mutates_args=())
def _linear_loss(
    hidden: Tensor,
    weight: Tensor,
    targets: Tensor,
    mask: Tensor,
    advantages: Tensor,
    span_starts: Tensor | None,
    span_ends: Tensor | None,
    span_advantages: Tensor | None,
    span_offsets: Tensor | None,
    old: Tensor | None,
    reference: Tensor | None,
    rollout: Tensor | None,
    offsets: Tensor | None,
    temperatures: Tensor | None,
    temperature: float,
    n_vocab: int | None,
    config: str,
    denominator: float | None,
    needs_grad: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    found = _losses.linear_loss(
        hidden,
        weight,
        targets,
        mask,
        _given(advantages, span_starts, span_ends, span_advantages, span_offsets),
        old=old,
        reference=reference,
        rollout=rollout,
        offsets=offsets,
        temperature=temperature if temperatures is None else temperatures,
        n_vocab=n_vocab,
        config=json.loads(config),
        denominator=denominator,
        grad=needs_grad,
        threads=torch.get_num_threads(),
    )
    if needs_grad:
        grad_hidden, grad_weight = found.grad_hidden, torch.from_numpy(found.grad_weight)
    else:
        grad_hidden, grad_weight = hidden.new_empty(0), torch.empty(0)
    log_prob = torch.from_numpy(found.log_prob)
    return _scalar(found.loss), grad_hidden, grad_weight, log_prob, _tensor_of(found.metrics)


@_linear_loss.register_fake
def _(hidden, weight, targets, *rest):
    needs_grad = rest[-1]
    return (
        torch.empty((), dtype=torch.float32),
        torch.empty(hidden.shape if needs_grad else 0, dtype=hidden.dtype),
        torch.empty(weight.shape if needs_grad else 0, dtype=torch.float32),
        torch.empty(targets.shape, dtype=torch.float32),
        torch.empty(len(_NAMES), dtype=torch.float64),
    )


def _save_linear(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    ctx.save_for_backward(output[1], output[2])
    ctx.dtype = inputs[1].dtype
    ctx.set_materialize_grads(False)


def _linear_backward(ctx: Any, upstream: Tensor | None, *_: Any) -> tuple[Tensor | None, ...]:
    grads: list[Tensor | None] = [None] * 19
    if upstream is not None:
        grad_hidden, grad_weight = ctx.saved_tensors
        grads[0] = _times(grad_hidden, upstream)
        grads[1] = (grad_weight * upstream.float()).to(ctx.dtype)
    return tuple(grads)


_linear_loss.register_autograd(_linear_backward, setup_context=_save_linear)
