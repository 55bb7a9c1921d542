"""The autograd functions: gradients against torch's own autograd and finite differences of the reference in f64."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import hunkwise  # noqa: E402
from hunkwise import _hunkwise, _losses  # noqa: E402
from hunkwise import torch as ht  # noqa: E402


def made(seed=0, shape=(4, 30)):
    generator = torch.Generator().manual_seed(seed)
    old = torch.rand(shape, generator=generator) * -4 - 0.1
    near = lambda by: old + by * torch.randn(shape, generator=generator)  # noqa: E731
    return {
        "log_prob": near(0.3),
        "mask": torch.rand(shape, generator=generator) < 0.8,
        "advantages": torch.randn(shape, generator=generator),
        "old": old,
    }


def clipped(log_prob, mask, advantages, old, low=0.2, high=0.2):
    """PPO's clipped loss as trainers write it, mean over tokens."""
    ratio = (log_prob - old).exp()
    loss = -torch.min(ratio * advantages, ratio.clamp(1 - low, 1 + high) * advantages)
    return (loss * mask).sum() / mask.sum()


def test_loss_and_gradient_are_those_of_torch():
    arrays = made()
    log_prob = arrays["log_prob"].requires_grad_()
    loss, metrics = ht.policy_loss(**arrays, config="bnpo")
    (loss * 3).backward()
    ours, log_prob.grad = log_prob.grad, None
    wanted = clipped(**arrays)
    (wanted * 3).backward()
    torch.testing.assert_close(loss, wanted, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(ours, log_prob.grad, rtol=1e-5, atol=1e-7)
    assert loss.shape == () and metrics["n_tokens"] == arrays["mask"].sum()
    assert not metrics["k1"].requires_grad


@pytest.mark.parametrize("preset", hunkwise.PRESETS)
def test_gradients_are_the_finite_differences_of_the_reference_in_f64(preset):
    arrays = made(1, (3, 6))
    extra = {"reference": arrays["old"] + 0.1, "rollout": arrays["old"] - 0.05}
    config = hunkwise.loss_config(preset, beta=0.05, rollout={"type": "truncate", "level": "token", "max": 2.0})
    log_prob = arrays.pop("log_prob").requires_grad_()
    loss, _ = ht.policy_loss(log_prob, **arrays, **extra, config=config)
    loss.backward()
    inputs = _losses._Inputs(log_prob=log_prob, mask=arrays["mask"], advantages=arrays["advantages"], offsets=None)
    inputs.add(old=arrays["old"], **extra)
    at = log_prob.detach().double().flatten().tolist()

    def value(i, step):
        moved = list(at)
        moved[i] += step
        return _hunkwise.reference_loss_at(inputs.triples(), inputs.rows, _losses._json(config), None, moved, at)

    assert value(0, 0.0) == pytest.approx(loss.item(), rel=1e-5, abs=1e-6)
    differences = [(value(i, 1e-5) - value(i, -1e-5)) / 2e-5 for i in range(len(at))]
    np.testing.assert_allclose(log_prob.grad.flatten(), differences, rtol=2e-4, atol=2e-6)


def test_entropy_has_its_gradient_and_constants_have_none():
    arrays = made()
    arrays["entropy"] = torch.rand(4, 30).requires_grad_()
    arrays["old"].requires_grad_()
    loss, _ = ht.policy_loss(**arrays, config=hunkwise.loss_config("bnpo", entropy_coef=0.1))
    loss.backward()
    wanted = -0.1 * arrays["mask"] / arrays["mask"].sum()
    torch.testing.assert_close(arrays["entropy"].grad, wanted)
    assert arrays["old"].grad is None


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_short_dtypes_keep_their_dtype(dtype):
    arrays = made()
    arrays["log_prob"] = arrays["log_prob"].to(dtype).requires_grad_()
    loss, _ = ht.policy_loss(**arrays, config="bnpo")
    loss.backward()
    assert loss.dtype == torch.float32 and arrays["log_prob"].grad.dtype == dtype
    wide = arrays["log_prob"].detach().float().requires_grad_()
    clipped(**arrays | {"log_prob": wide}).backward()
    torch.testing.assert_close(arrays["log_prob"].grad.float(), wide.grad, rtol=1e-2, atol=1e-5)


def test_spans_are_the_dense_advantages():
    arrays = made(shape=(2, 6))
    dense = torch.tensor([[1.0, 1.5, 1.5, 1.0, 1.0, 1.0], [-1.0] * 6])
    spans = hunkwise.Spans([1.0, -1.0], [1], [3], [0.5], [0, 1, 1])
    one, _ = ht.policy_loss(**arrays | {"advantages": dense})
    other, _ = ht.policy_loss(**arrays | {"advantages": spans})
    assert one == other


@pytest.mark.parametrize("config", ["dapo", {"preset": "dapo", "surrogate": {"high": 0.3}}])
def test_compiled_and_under_autocast_it_is_the_same(config):
    arrays = made()
    log_prob = arrays.pop("log_prob")

    def step(log_prob):
        loss, metrics = ht.policy_loss(log_prob * 1.0, **arrays, config=config)
        return loss * 2, metrics["clip_fraction"]

    plain = log_prob.clone().requires_grad_()
    step(plain)[0].backward()
    compiled = log_prob.clone().requires_grad_()
    loss, fraction = torch.compile(step, fullgraph=True, backend="aot_eager")(compiled)
    loss.backward()
    torch.testing.assert_close(compiled.grad, plain.grad, rtol=0, atol=0)
    assert fraction == step(plain)[1]
    with torch.autocast("cpu", dtype=torch.bfloat16):
        cast = log_prob.clone().requires_grad_()
        step(cast)[0].backward()
    torch.testing.assert_close(cast.grad, plain.grad, rtol=0, atol=0)


def test_operators_pass_torchs_own_checks():
    arrays = made(shape=(2, 5))
    arguments = (arrays["log_prob"].requires_grad_(), arrays["mask"], arrays["advantages"], *[None] * 4)
    arguments += (arrays["old"], None, None, None, None, '"grpo"', None)
    torch.library.opcheck(ht._policy_loss, arguments)
    logits, targets = torch.randn(2, 5, 11, requires_grad=True), torch.randint(0, 11, (2, 5))
    torch.library.opcheck(ht._token_logprob, (logits.detach(), targets, None, None, 1.0, None))
    tail = (None, None, None, None, None, 1.0, None, '"grpo"', None)
    of_rows = (targets, arrays["mask"], torch.ones(2), *[None] * 4)
    torch.library.opcheck(ht._logits_loss, (logits, *of_rows, *tail))
    hidden, weight = torch.randn(2, 5, 4, requires_grad=True), torch.randn(11, 4, requires_grad=True)
    torch.library.opcheck(ht._linear_loss, (hidden, weight, *of_rows, *tail, True), rtol=1e-4, atol=1e-5)


def of_logits(logits, targets, mask, advantages, old):
    log_prob = torch.log_softmax(logits.float() / 0.8, -1).gather(-1, targets[..., None])[..., 0]
    return clipped(log_prob, mask, advantages, old)


@pytest.mark.parametrize("in_place", [False, True])
def test_logits_loss_is_that_of_torch(in_place):
    arrays = made(2, (3, 8))
    targets = torch.randint(0, 50, (3, 8))
    head, hidden = torch.randn(50, 16, requires_grad=True), torch.randn(3, 8, 16, requires_grad=True)
    arguments = (targets, arrays["mask"], arrays["advantages"])
    wanted = of_logits(hidden @ head.T, *arguments, arrays["old"])
    (2 * wanted).backward()
    grads = [head.grad, hidden.grad]
    head.grad = hidden.grad = None
    loss, _, log_prob = ht.logits_loss(
        hidden @ head.T, *arguments, old=arrays["old"], temperature=0.8, config="bnpo", in_place=in_place
    )
    (2 * loss).backward(retain_graph=True)
    torch.testing.assert_close(loss, wanted, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(head.grad, grads[0], rtol=1e-4, atol=1e-6)
    torch.testing.assert_close(hidden.grad, grads[1], rtol=1e-4, atol=1e-6)
    assert not log_prob.requires_grad
    if in_place:
        with pytest.raises(RuntimeError, match="was used before"):
            loss.backward()
    else:
        loss.backward()


def test_in_place_without_gradient_leaves_the_logits():
    arrays = made(2, (3, 8))
    logits, targets = torch.randn(3, 8, 50), torch.randint(0, 50, (3, 8))
    before = logits.clone()
    with torch.no_grad():
        ht.logits_loss(logits, targets, arrays["mask"], arrays["advantages"], in_place=True)
    assert torch.equal(logits, before)


def test_linear_loss_is_that_of_torch():
    arrays = made(3, (3, 8))
    targets = torch.randint(0, 50, (3, 8))
    head, hidden = torch.randn(50, 16, requires_grad=True), torch.randn(3, 8, 16, requires_grad=True)
    arguments = (targets, arrays["mask"], arrays["advantages"])
    of_logits(hidden @ head.T, *arguments, arrays["old"]).backward()
    grads = [head.grad, hidden.grad]
    head.grad = hidden.grad = None
    loss, _, _ = ht.linear_loss(hidden, head, *arguments, old=arrays["old"], temperature=0.8, config="bnpo")
    loss.backward()
    torch.testing.assert_close(head.grad, grads[0], rtol=1e-4, atol=1e-6)
    torch.testing.assert_close(hidden.grad, grads[1], rtol=1e-4, atol=1e-6)


def test_log_probs_of_bf16_logits():
    logits, targets = torch.randn(2, 7, 101).bfloat16(), torch.randint(0, 101, (2, 7))
    log_prob, entropy = ht.token_logprob(logits, targets)
    wide = torch.log_softmax(logits.float(), -1)
    torch.testing.assert_close(log_prob, wide.gather(-1, targets[..., None])[..., 0], rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(entropy, -(wide.exp() * wide).sum(-1), rtol=1e-5, atol=1e-5)


def test_what_is_not_on_the_host_is_refused():
    arrays = made()
    with pytest.raises(ValueError, match="log_prob is on meta"):
        hunkwise.policy_loss(**arrays | {"log_prob": arrays["log_prob"].to("meta")})
