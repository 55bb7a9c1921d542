"""Losses over arrays: shapes, dtypes and layouts; values are held to the reference and to formulas written out here."""

import numpy as np
import pytest

import hunkwise

RATIO = np.exp(np.float64(np.float32(0.1)))


def made(seed=0, shape=(5, 40)):
    random = np.random.default_rng(seed)
    old = random.uniform(-4, -0.1, shape).astype(np.float32)
    near = lambda by: (old + random.normal(0, by, shape)).astype(np.float32)  # noqa: E731
    return {
        "log_prob": near(0.3),
        "mask": random.random(shape) < 0.8,
        "advantages": random.normal(size=shape).astype(np.float32),
        "old": old,
        "reference": near(0.5),
        "rollout": near(0.1),
        "entropy": random.uniform(0, 3, shape).astype(np.float32),
    }


def test_the_clipped_loss_by_hand():
    found = hunkwise.policy_loss(
        [[-0.9, -1.2, -0.5]], [[1, 1, 0]], [1.0], old=[[-1.0, -1.0, -0.5]], config="grpo", token_loss=True
    )
    assert found.loss == pytest.approx(-(np.exp(0.1) + np.exp(-0.2)) / 2, rel=1e-6)
    np.testing.assert_allclose(found.grad_log_prob, [[-np.exp(0.1) / 2, -np.exp(-0.2) / 2, 0]], rtol=1e-6)
    assert found.token_loss.sum() == pytest.approx(found.loss, rel=1e-6)
    assert found.metrics["n_tokens"] == 2
    assert found.grad_entropy is None


@pytest.mark.parametrize("preset", hunkwise.PRESETS)
def test_every_preset_is_that_of_the_reference(preset):
    arrays = made()
    config = hunkwise.loss_config(preset, beta=0.02, entropy_coef=0.01)
    fast = hunkwise.policy_loss(**arrays, config=config, token_loss=True)
    exact = hunkwise.reference_policy_loss(**arrays, config=config)
    assert exact.grad_log_prob.dtype == np.float64
    assert fast.loss == pytest.approx(exact.loss, rel=1e-4, abs=1e-6)
    for name in ("grad_log_prob", "grad_entropy", "token_loss"):
        one, other = getattr(fast, name), getattr(exact, name)
        assert np.abs(other).max() > 0
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5 * np.abs(other).max())
    for name, value in exact.metrics.items():
        assert fast.metrics[name] == pytest.approx(value, rel=1e-4, abs=1e-5), name


def test_layouts_and_forms_of_advantages_agree():
    arrays = made(shape=(3, 7))
    arrays["mask"][:] = True
    of_rows = np.array([1.0, -0.5, 0.25], np.float32)
    dense = np.repeat(of_rows[:, None], 7, 1)
    dense[1, 2:5] += np.float32(0.75)
    spans = hunkwise.Spans(of_rows, [2], [5], np.array([0.75], np.float32), [0, 0, 1, 1])
    padded = hunkwise.policy_loss(**arrays | {"advantages": dense})
    sparse = hunkwise.policy_loss(**arrays | {"advantages": spans})
    flat = {name: array.reshape(-1) for name, array in arrays.items()}
    packed = hunkwise.policy_loss(**flat | {"advantages": dense.reshape(-1)}, offsets=[0, 7, 14, 21])
    assert padded.loss == sparse.loss == packed.loss
    np.testing.assert_array_equal(padded.grad_log_prob.reshape(-1), packed.grad_log_prob)
    rows = hunkwise.policy_loss(**arrays | {"advantages": of_rows})
    column = hunkwise.policy_loss(**arrays | {"advantages": of_rows[:, None]})
    assert rows.loss == column.loss != padded.loss


def test_micro_batches_add_up_with_a_global_denominator():
    arrays = made(shape=(6, 30))
    whole = hunkwise.policy_loss(**arrays, config="dapo")
    halves = [
        hunkwise.policy_loss(
            **{name: array[part] for name, array in arrays.items()}, config="dapo", denominator=whole.denominator
        )
        for part in (slice(0, 3), slice(3, 6))
    ]
    assert sum(half.loss for half in halves) == pytest.approx(whole.loss, rel=1e-9)
    np.testing.assert_array_equal(np.concatenate([half.grad_log_prob for half in halves]), whole.grad_log_prob)


def test_masked_values_are_never_read():
    arrays = made()
    first = hunkwise.policy_loss(**arrays, config="didpo")
    for name in ("log_prob", "old", "reference", "rollout", "entropy", "advantages"):
        arrays[name] = np.where(arrays["mask"], arrays[name], np.float32("nan"))
    second = hunkwise.policy_loss(**arrays, config="didpo")
    assert first.loss == second.loss and first.metrics == second.metrics
    np.testing.assert_array_equal(first.grad_log_prob, second.grad_log_prob)
    assert not first.grad_log_prob[~arrays["mask"]].any()


def test_masks_of_any_dtype_and_arrays_that_are_not_contiguous():
    arrays = made()
    plain = hunkwise.policy_loss(**arrays)
    for dtype in (np.int64, np.float32, np.uint8, np.float64):
        assert hunkwise.policy_loss(**arrays | {"mask": arrays["mask"].astype(dtype)}).loss == plain.loss
    turned = {name: np.asfortranarray(array) for name, array in arrays.items()}
    assert hunkwise.policy_loss(**turned).loss == plain.loss
    strided = {name: np.repeat(array, 2, 1)[:, ::2] for name, array in arrays.items()}
    assert hunkwise.policy_loss(**strided).loss == plain.loss
    read_only = arrays["log_prob"].copy()
    read_only.flags.writeable = False
    assert hunkwise.policy_loss(**arrays | {"log_prob": read_only}).loss == plain.loss


@pytest.mark.parametrize(
    "changes, kind, message",
    [
        # Advantages in the place of the mask: verl #2506.
        ({"mask": np.array([[-1.0, 0.5]])}, ValueError, r"mask\[0, 0\] is -1.0; a mask is 0 or 1"),
        ({"mask": np.ones((1, 3), bool)}, ValueError, r"mask has the shape \[1, 3\], log_prob \[1, 2\]"),
        ({"old": np.zeros((2, 1), np.float32)}, ValueError, "old has the shape"),
        ({"advantages": [1.0, 2.0, 3.0]}, ValueError, "one for each"),
        ({"log_prob": np.zeros((1, 2))}, TypeError, "log_prob is float64"),
        ({"log_prob": np.zeros((1, 2), ">f4")}, TypeError, "other order"),
        ({"log_prob": np.zeros((1, 2, 1), np.float32)}, ValueError, "it is \\[rows, tokens\\]"),
        ({"offsets": [0, 3]}, ValueError, "offsets"),
        ({"offsets": [0.0, 2.0]}, TypeError, "not of integers"),
        ({"config": "gpro"}, ValueError, "gpro"),
        ({"config": {"beta": 0.1}}, ValueError, "reference"),
        ({"config": {"surrogate": {"hihg": 1}}}, ValueError, "hihg"),
        ({"denominator": 0.0}, ValueError, "denominator"),
    ],
)
def test_what_does_not_fit_is_named(changes, kind, message):
    arrays = {"log_prob": np.zeros((1, 2), np.float32), "mask": np.ones((1, 2), bool), "advantages": [1.0]}
    with pytest.raises(kind, match=message):
        hunkwise.policy_loss(**arrays | changes)


def softmax(logits):
    wide = logits.astype(np.float64)
    wide -= wide.max(-1, keepdims=True)
    return np.exp(wide) / np.exp(wide).sum(-1, keepdims=True)


def test_log_probs_and_entropies_from_logits():
    random = np.random.default_rng(3)
    logits = random.normal(0, 3, (2, 4, 101)).astype(np.float32)
    targets = random.integers(0, 97, (2, 4))
    log_prob, entropy = hunkwise.token_logprob(logits, targets, temperature=0.7, n_vocab=97, entropy=True)
    p = softmax(logits[..., :97] / 0.7)
    np.testing.assert_allclose(log_prob, np.log(np.take_along_axis(p, targets[..., None], -1))[..., 0], rtol=1e-5)
    np.testing.assert_allclose(entropy, -(p * np.log(p)).sum(-1), rtol=1e-5)
    each, nothing = hunkwise.token_logprob(logits, targets, temperature=np.full((2, 4), 0.7, np.float32), n_vocab=97)
    np.testing.assert_array_equal(each, log_prob)
    assert nothing is None


def test_the_gradient_by_logits_is_that_of_the_softmax():
    random = np.random.default_rng(4)
    logits = random.normal(0, 2, (2, 3, 50)).astype(np.float32)
    targets, mask = random.integers(0, 50, (2, 3)), np.array([[1, 1, 0], [1, 1, 1]])
    advantages = np.array([1.0, -2.0], np.float32)
    found = hunkwise.logits_loss(logits, targets, mask, advantages, config="bnpo")
    # Ratio 1: the gradient by the log-prob is -A / 5, and d logp / d logits is onehot - p.
    wanted = np.eye(50)[targets] - softmax(logits)
    wanted *= (-advantages[:, None] / 5 * mask)[..., None]
    np.testing.assert_allclose(found.grad, wanted, atol=2e-6)
    assert found.loss == pytest.approx(-(2 * 1.0 - 3 * 2.0) / 5, rel=1e-6)
    over = logits.copy()
    in_place = hunkwise.logits_loss(over, targets, mask, advantages, config="bnpo", grad="in_place")
    assert in_place.grad is over
    np.testing.assert_array_equal(over, found.grad)
    assert hunkwise.logits_loss(logits, targets, mask, advantages, config="bnpo", grad=False).grad is None
    with pytest.raises(ValueError, match="grad is 'over'"):
        hunkwise.logits_loss(logits, targets, mask, advantages, grad="over")
    over.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        hunkwise.logits_loss(over, targets, mask, advantages, grad="in_place")


def test_hidden_states_give_what_their_logits_give():
    random = np.random.default_rng(5)
    hidden = random.normal(0, 1, (2, 6, 16)).astype(np.float32)
    weight = random.normal(0, 0.5, (41, 16)).astype(np.float32)
    targets, mask = random.integers(0, 41, (2, 6)), random.random((2, 6)) < 0.8
    advantages = np.array([1.0, -2.0], np.float32)
    logits = hidden @ weight.T
    of_logits = hunkwise.logits_loss(logits, targets, mask, advantages, config="dapo")
    found = hunkwise.linear_loss(hidden, weight, targets, mask, advantages, config="dapo")
    assert found.loss == pytest.approx(of_logits.loss, rel=1e-5)
    np.testing.assert_allclose(found.grad_hidden, of_logits.grad @ weight, atol=1e-5)
    of_weight = np.einsum("rtv,rth->vh", of_logits.grad, hidden)
    np.testing.assert_allclose(found.grad_weight, of_weight, atol=1e-5)
    more = np.ones_like(weight)
    again = hunkwise.linear_loss(hidden, weight, targets, mask, advantages, config="dapo", grad_weight=more)
    assert again.grad_weight is more
    np.testing.assert_allclose(more, 1 + of_weight, atol=1e-5)
    with pytest.raises(ValueError, match="do not fit"):
        hunkwise.linear_loss(hidden[..., :8], weight, targets, mask, advantages)


def test_spans_come_from_a_credit():
    text = '<edit path="a.py"><search>\npass\n</search><replace>\nreturn 1\n</replace></edit>'
    rows = [{"task": "t", "text": text, "token_ends": [20, 40, 60, len(text)], "outcome": float(i)} for i in range(2)]
    credit = hunkwise.credit(rows)
    dense = np.stack(credit.advantages)
    arrays = made(shape=(2, 4)) | {"mask": np.ones((2, 4), bool)}
    of_spans = hunkwise.policy_loss(**arrays | {"advantages": hunkwise.Spans.of_credit(credit)}, config="didpo")
    of_dense = hunkwise.policy_loss(**arrays | {"advantages": dense}, config="didpo")
    assert of_spans.loss == of_dense.loss
    np.testing.assert_array_equal(of_spans.grad_log_prob, of_dense.grad_log_prob)
