"""verl as it is installed (0.9.1, on the CPU): its plug-in loading, its trainer's advantages, its losses."""

import math
import os
import subprocess
import sys

import pytest

torch = pytest.importorskip("torch")
verl = pytest.importorskip("verl", reason="verl is not installed: pip install verl==0.9.1")

import hunkwise  # noqa: E402
from hunkwise import __main__ as command  # noqa: E402
from hunkwise import torch as ht  # noqa: E402
from hunkwise import verl as plugin  # noqa: E402

if verl.__version__ != "0.9.1":
    pytest.skip(f"verl is {verl.__version__}; these tests are for 0.9.1", allow_module_level=True)

core_algos = pytest.importorskip("verl.trainer.ppo.core_algos")
from verl.workers.config import ActorConfig  # noqa: E402

GOOD = '<edit path="a.py"><search>\npass\n</search><replace>\nreturn sum(prices)\n</replace></edit>'
BAD = '<edit path="a.py"><search>\npass\n</search><replace>\nreturn max(prices) + tax\n</replace></edit>'


def test_importing_verl_registers_and_imports_nothing_more():
    code = """
import sys, verl
assert "hunkwise.verl" in sys.modules
assert "verl.trainer.ppo.core_algos" not in sys.modules, "the plug-in imported more of verl than verl does"
from verl.trainer.ppo.core_algos import get_adv_estimator_fn, get_policy_loss_fn
print(get_policy_loss_fn("hunkwise_gspo").args, get_adv_estimator_fn("didpo").__module__)
"""
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=120)
    assert found.stdout.strip().splitlines()[-1:] == ["('gspo',) hunkwise.verl"], found.stderr


def test_plugins_can_be_kept_out_and_modules_named():
    code = "import sys, verl; print('hunkwise.verl' in sys.modules)"
    for changes, wanted in [
        ({"VERL_USE_EXTERNAL_PLUGINS": "none"}, "False"),
        ({"VERL_USE_EXTERNAL_PLUGINS": "none", "VERL_USE_EXTERNAL_MODULES": "hunkwise.verl"}, "True"),
        ({"VERL_USE_EXTERNAL_PLUGINS": "hunkwise"}, "True"),
    ]:
        run = [sys.executable, "-c", code]
        found = subprocess.run(run, env=os.environ | changes, capture_output=True, text=True, check=True, timeout=120)
        assert found.stdout.strip().splitlines()[-1] == wanted, changes


def test_the_doctor_tells_what_is_registered(capsys):
    status = command.main(["doctor", "verl"])
    told = capsys.readouterr().out
    assert "ok  entry point verl.plugins: hunkwise = hunkwise.verl" in told
    assert "ok  policy losses: hunkwise_vanilla, hunkwise_gspo, hunkwise_sapo, hunkwise_cispo" in told
    assert "ok  advantage estimator: didpo" in told
    assert status == (1 if "NO " in told else 0)


def test_the_doctor_tells_what_is_missing(monkeypatch, capsys):
    monkeypatch.setenv("VERL_USE_EXTERNAL_PLUGINS", "other")
    monkeypatch.delitem(core_algos.POLICY_LOSS_REGISTRY, "hunkwise_sapo")
    assert command.main(["doctor", "verl"]) == 1
    told = capsys.readouterr().out
    assert "NO  VERL_USE_EXTERNAL_PLUGINS=other keeps verl from loading it" in told
    assert "NO  policy losses: hunkwise_sapo\n" in told


def test_the_estimator_alone_says_what_it_lacks():
    with pytest.raises(RuntimeError, match="trainer.use_v1=true"):
        core_algos.get_adv_estimator_fn("didpo")(token_level_rewards=None, response_mask=None, config=None, index=None)


@pytest.fixture(scope="module")
def trainer_base():
    return pytest.importorskip(
        "verl.trainer.ppo.v1.trainer_base", reason="verl's trainer V1 cannot be imported", exc_type=ImportError
    )


@pytest.fixture(scope="module")
def queue(trainer_base):
    """verl's own TransferQueue, on a Ray of this machine."""
    ray = pytest.importorskip("ray")
    os.environ.setdefault("RAY_AUTH_MODE", "disabled")
    ray.init(num_cpus=8, include_dashboard=False, log_to_driver=False)
    config = config_of()
    config.transfer_queue.enable = True
    config.transfer_queue.backend.SimpleStorage.num_data_storage_units = 1
    config.transfer_queue.backend.SimpleStorage.total_storage_size = 1000
    trainer_base.tq.init(config.transfer_queue)
    yield trainer_base.tq
    trainer_base.tq.close()
    ray.shutdown()


def config_of(*overrides):
    from hydra import compose, initialize_config_module

    with initialize_config_module("verl.trainer.config", version_base=None):
        return compose("ppo_trainer", overrides=list(overrides))


def put(queue, rows):
    """Rows as verl's agent loops write them: (key, text, spans of what the model wrote, reward)."""
    from byte_tokenizer import byte_tokenizer
    from verl.utils.tensordict_utils import list_of_dict_to_tensordict

    encode = byte_tokenizer().encode
    fields = []
    for key, text, spans, reward in rows:
        ids = torch.tensor(encode(text, add_special_tokens=False))
        mask = torch.zeros(len(ids), dtype=torch.int64)
        for start, end in spans:
            mask[start:end] = 1
        scores = torch.zeros(len(ids))
        scores[-1] = reward
        fields.append({
            "uid": key.rsplit("_", 2)[0], "responses": ids, "response_mask": mask, "rm_scores": scores,
            "old_log_probs": torch.full((len(ids),), -1.0), "ref_log_prob": torch.full((len(ids),), -1.5),
        })  # fmt: skip
    keys = [row[0] for row in rows]
    tags = [{"is_padding": key.startswith("pad")} for key in keys]
    return queue.kv_batch_put(
        keys=keys, partition_id="train", fields=list_of_dict_to_tensordict(fields), tags=tags
    )  # fmt: skip


def advantages_of(trainer_base, queue, batch, *overrides):
    """What verl's `_compute_advantage` writes to the queue, and its metrics."""
    from byte_tokenizer import byte_tokenizer
    from verl.trainer.ppo.v1.trainer_sync import PPOTrainerSync

    trainer = object.__new__(PPOTrainerSync)
    trainer.config = config_of(*overrides)
    trainer.tokenizer = byte_tokenizer()
    if trainer.config.algorithm.use_kl_in_reward:
        trainer.kl_ctrl_in_reward = core_algos.get_kl_controller(trainer.config.algorithm.kl_ctrl)
    metrics = {}
    trainer._compute_advantage(batch, metrics)
    fields = ["advantages", "returns"]
    data = queue.kv_batch_get(keys=batch.keys, partition_id=batch.partition_id, select_fields=fields)
    return (
        [row.clone() for row in data["advantages"].unbind()],
        [row.clone() for row in data["returns"].unbind()],
        metrics,
    )


def whole(key, text, reward):
    return key, text, [(0, len(text))], reward


@pytest.fixture(scope="module")
def batch(queue):
    tool = "\n[tool] ok\n"
    conversation = "I look. " + tool + GOOD
    return put(
        queue,
        [
            whole("shop_0_0", GOOD, 1.0),
            whole("shop_1_0", BAD, 0.0),
            # One row with two turns of the model, and what a tool said between them.
            ("shop_2_0", conversation, [(0, 8), (8 + len(tool), len(conversation))], 0.0),
            # A session of two rows: its score is that of the last.
            whole("shop_3_0", GOOD, 1.0),
            whole("shop_3_1", "Done.", 1.0),
            ("padff_0_0", "x", [], 0.0),
        ],
    )  # fmt: skip


def test_with_lambda_0_the_advantages_are_verls(trainer_base, queue, batch):
    wanted, _, _ = advantages_of(trainer_base, queue, batch, "algorithm.adv_estimator=grpo")
    found, returns, metrics = advantages_of(
        trainer_base, queue, batch, "algorithm.adv_estimator=didpo", "+algorithm.hunkwise.advantage.lambda=0"
    )
    for one, other, of_returns in zip(wanted, found, returns, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=0)
        torch.testing.assert_close(one, of_returns, rtol=0, atol=0)
    assert metrics["hunkwise/trajectories"] == 4.0
    assert metrics["timing_s/hunkwise"] > 0
    assert wanted[0].abs().sum() > 0


def test_code_that_recurs_gets_its_own_advantage(trainer_base, queue, batch):
    verls, _, _ = advantages_of(trainer_base, queue, batch, "algorithm.adv_estimator=grpo")
    found, returns, metrics = advantages_of(
        trainer_base, queue, batch, "algorithm.adv_estimator=didpo", "+algorithm.hunkwise.advantage.lambda=0.5",
        "+algorithm.hunkwise.advantage.gamma=1",
    )  # fmt: skip
    added = [one - other for one, other in zip(found, verls, strict=True)]
    # The line with sum(prices) is in rollouts 0, 2 and 3 with the returns 1, 0 and 1: a mean of 2/3.
    line = "return sum(prices)"
    for row, text, advantage in [(0, GOOD, 1 / 3), (2, "I look. \n[tool] ok\n" + GOOD, -2 / 3), (3, GOOD, 1 / 3)]:
        at = text.index(line)
        assert added[row][at : at + len(line)].tolist() == pytest.approx([0.5 * advantage] * len(line), rel=1e-5)
    # `pass` is deleted in all four, 1, 0, 0 and 1: a mean of 1/2.
    at = BAD.index("pass")
    assert added[1][at : at + 4].tolist() == pytest.approx([-0.25] * 4, rel=1e-5)
    # What the tool said and what is padding has no advantage, what stands outside of edits only verl's.
    assert found[2][8 : 8 + len("\n[tool] ok\n")].abs().sum() == 0
    assert added[4].abs().sum() == 0 and added[5].abs().sum() == 0
    assert added[0][: GOOD.index("pass")].abs().sum() == 0
    for one, other in zip(found, returns, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=0)


def test_kl_in_the_reward_reaches_both_parts(trainer_base, queue, batch):
    overrides = ["algorithm.use_kl_in_reward=true", "algorithm.kl_ctrl.kl_coef=0.01"]
    verls, _, _ = advantages_of(trainer_base, queue, batch, "algorithm.adv_estimator=grpo", *overrides)
    found, _, metrics = advantages_of(
        trainer_base, queue, batch, "algorithm.adv_estimator=didpo", "+algorithm.hunkwise.advantage.lambda=1",
        "+algorithm.hunkwise.advantage.gamma=1", *overrides,
    )  # fmt: skip
    # KL 0.5 on every trained token: rewards of 1 - 0.005 L, the last row's for the session of two.
    lengths = [len(GOOD), len(BAD), len("I look. " + GOOD), len("Done.")]
    scores = [reward - 0.005 * n for reward, n in zip([1.0, 0.0, 0.0, 1.0], lengths, strict=True)]
    at = GOOD.index("return sum")
    mean = (scores[0] + scores[2] + scores[3]) / 3
    assert float((found[0] - verls[0])[at]) == pytest.approx(scores[0] - mean, rel=1e-4)
    # A mean over rows, of which one is padding.
    assert metrics["actor/reward_kl_penalty"] == pytest.approx(0.5 * 5 / 6)


def test_a_config_that_is_wrong_is_refused_with_its_place(trainer_base, queue, batch):
    with pytest.raises(ValueError, match="config.advantage.lamda is not known"):
        advantages_of(
            trainer_base, queue, batch, "algorithm.adv_estimator=didpo", "+algorithm.hunkwise.advantage.lamda=1"
        )


def test_keys_of_another_form_are_refused():
    with pytest.raises(ValueError, match="'shop-1' is not"):
        plugin.rows_of_batch(None, ["shop-1"], [], torch.zeros(1, 1), [0.0])


# Losses.

MODES = ["token-mean", "token-sum", "seq-mean-token-sum", "seq-mean-token-sum-norm", "seq-mean-token-mean"]
INFOS = {
    "alone": {},
    "two ranks": {"dp_size": 2, "batch_num_tokens": 71, "global_batch_size": 9, "loss_scale_factor": 16},
}


def actor(info=None, **changes):
    config = ActorConfig(
        strategy="fsdp",
        rollout_n=4,
        ppo_micro_batch_size_per_gpu=1,
        clip_ratio_low=0.15,
        clip_ratio_high=0.28,
        **changes,
    )
    config.global_batch_info.update(info or {})
    return config


def arrays(seed=3, n_rows=6, n_tokens=14, drift=0.4):
    generator = torch.Generator().manual_seed(seed)
    old = -3 * torch.rand(n_rows, n_tokens, generator=generator)
    lengths = torch.tensor([14, 1, 9, 0, 5, 12])
    mask = torch.arange(n_tokens) < lengths[:, None]
    mask &= (torch.rand(n_rows, n_tokens, generator=generator) < 0.8) | (torch.arange(n_tokens) == 0)
    return {
        "old_log_prob": old, "log_prob": old + drift * torch.randn(n_rows, n_tokens, generator=generator),
        "advantages": 2 * torch.randn(n_rows, n_tokens, generator=generator), "response_mask": mask,
    }  # fmt: skip


def gradient(compute, given):
    log_prob = given["log_prob"].clone().requires_grad_()
    loss, metrics = compute(**given | {"log_prob": log_prob})
    loss.backward()
    assert log_prob.grad.abs().max() > 1e-4
    return loss.detach(), log_prob.grad, metrics


def hold(ours, theirs, given):
    loss, grad, metrics = gradient(ours, given)
    wanted, wanted_grad, wanted_metrics = gradient(theirs, given)
    torch.testing.assert_close(loss, wanted, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(grad, wanted_grad, rtol=1e-4, atol=1e-6)
    return metrics, wanted_metrics


# verl's sapo takes seq-mean-token-mean whatever is asked.
SAME = [(kind, mode) for kind in ("vanilla", "gspo", "cispo") for mode in MODES] + [("sapo", "seq-mean-token-mean")]


@pytest.mark.parametrize("kind, mode", SAME)
@pytest.mark.parametrize("info", INFOS)
def test_registered_losses_are_verls_of_the_same_name(kind, mode, info):
    given = arrays() | {"loss_agg_mode": mode, "config": actor(INFOS[info])}
    theirs, ours = (core_algos.get_policy_loss_fn(name) for name in (kind, f"hunkwise_{kind}"))
    for weights in (None, torch.rand(6, 14, generator=torch.Generator().manual_seed(8)) + 0.5):
        metrics, wanted = hold(ours, theirs, given | {"rollout_is_weights": weights})
        assert metrics.keys() == wanted.keys()
        assert metrics["actor/ppo_kl"] == pytest.approx(wanted["actor/ppo_kl"], rel=1e-4)
        if kind in ("vanilla", "gspo"):
            for name in ("actor/pg_clipfrac", "actor/pg_clipfrac_lower"):
                assert metrics[name] == pytest.approx(wanted[name], abs=1e-6)


def test_the_dual_clip_is_reached():
    given = arrays(drift=1.5) | {"loss_agg_mode": "token-mean", "config": actor(clip_ratio_c=1.5)}
    ours, theirs = (core_algos.get_policy_loss_fn(name) for name in ("hunkwise_vanilla", "vanilla"))
    metrics, wanted = hold(ours, theirs, given)
    assert (
        metrics["actor/pg_clipfrac_lower"] == pytest.approx(wanted["actor/pg_clipfrac_lower"])
        and wanted["actor/pg_clipfrac_lower"] > 0
    )


def token_loss(config, **more):
    def compute(old_log_prob, log_prob, advantages, response_mask, **_):
        given = {name: value(old_log_prob, log_prob, advantages) for name, value in more.items()}
        given.setdefault("advantages", advantages)
        return ht.policy_loss(log_prob, response_mask, config=config, **given)

    return compute


def unbounded(**more):
    surrogate = {"type": "cispo", "min": 0.0, "max": more.pop("max", 1e9)}
    return hunkwise.loss_config("bnpo", surrogate=surrogate, **more)


def within_tv(old, new, advantages):
    moved = new.detach().exp() - old.exp()
    return advantages * torch.where(advantages > 0, moved <= 0.28, moved >= -0.15)


def within_kl(old, new, advantages):
    p, q = old.exp(), new.detach().exp()
    kl = p * (old - new.detach()) + (1 - p) * ((1 - p + 1e-8) / (1 - q + 1e-8)).log()
    return advantages * torch.where(
        advantages > 0, (kl <= 0.28) | (q <= p), (kl <= 0.15) | (q >= p)
    )  # fmt: skip


# Losses that ours express by other names, and those that they do not.
EXPRESSED = {
    # -A logp: a weight of 1 whatever the ratio.
    "gpg": (token_loss(unbounded()), {}),
    # -A logp + beta (logp - old)^2 / 2: k2 to the old policy.
    "dro": (
        token_loss(unbounded(kl="k2", beta=0.3), reference=lambda old, new, advantages: old),
        {"policy_loss": {"dro_beta": 0.3}},
    ),
    # -A min(r, c) logp where the probability has not moved too far.
    "dppo_tv": (
        token_loss(unbounded(max=1.4), old=lambda old, new, advantages: old, advantages=within_tv),
        {"clip_ratio_c": 1.4},
    ),
    "dppo_kl": (
        token_loss(unbounded(max=1.4), old=lambda old, new, advantages: old, advantages=within_kl),
        {"clip_ratio_c": 1.4},
    ),
}
NOT_EXPRESSED = {
    "clip_cov": "leaves out random tokens of high covariance",
    "kl_cov": "adds |KL| to the tokens of highest covariance",
    "geo_mean": "clips log-ratios inside the mean over a row",
    "bypass_mode": "calls others with a correction of its own",
}


@pytest.mark.parametrize("name", EXPRESSED)
def test_other_losses_of_verl_are_ours_by_other_names(name):
    ours, changes = EXPRESSED[name]
    changes = dict(changes)
    if "policy_loss" in changes:
        from verl.workers.config.actor import PolicyLossConfig

        changes["policy_loss"] = PolicyLossConfig(**changes["policy_loss"])
    given = arrays() | {"loss_agg_mode": "token-mean", "config": actor(**changes)}
    hold(ours, core_algos.get_policy_loss_fn(name), given)


def test_every_loss_of_verl_is_held_or_named():
    theirs = {name for name in core_algos.POLICY_LOSS_REGISTRY if not name.startswith("hunkwise_")}
    assert theirs == {"vanilla", "gspo", "sapo", "cispo", *EXPRESSED, *NOT_EXPRESSED}


@pytest.mark.parametrize(
    "penalty, kl",
    [("k1", "k1"), ("k2", "k2"), ("low_var_kl", "k3"), ("kl+", "k1_straight_through"), ("k3+", "k3_straight_through")],
)
@pytest.mark.parametrize("mode", ["token-mean", "seq-mean-token-mean", "seq-mean-token-sum"])
def test_kl_and_entropy_are_added_as_verl_adds_them(penalty, kl, mode):
    given = arrays()
    generator = torch.Generator().manual_seed(4)
    reference = given["log_prob"] + 0.3 * torch.randn(6, 14, generator=generator)
    entropy = torch.rand(6, 14, generator=generator)
    config = actor()
    log_prob, entropies = given["log_prob"].clone().requires_grad_(), entropy.clone().requires_grad_()
    loss, _ = core_algos.get_policy_loss_fn("vanilla")(
        **given | {"log_prob": log_prob}, loss_agg_mode=mode, config=config
    )  # fmt: skip
    mask = given["response_mask"]
    of_kl = core_algos.kl_penalty(log_prob, reference, penalty)
    loss = loss + 0.04 * core_algos.agg_loss(of_kl, mask, mode) - 0.01 * core_algos.agg_loss(entropies, mask, mode)
    loss.backward()
    ours, our_entropies = given["log_prob"].clone().requires_grad_(), entropy.clone().requires_grad_()
    made = hunkwise.loss_config(
        "ppo", surrogate={"low": 0.15, "high": 0.28}, reduction={"type": mode.replace("-", "_")}, kl=kl, beta=0.04,
        entropy_coef=0.01, count_empty_rows=False,
    )  # fmt: skip
    found, metrics = ht.policy_loss(
        ours, mask, given["advantages"], old=given["old_log_prob"], reference=reference, entropy=our_entropies,
        config=made,
    )  # fmt: skip
    found.backward()
    torch.testing.assert_close(found, loss.detach(), rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(ours.grad, log_prob.grad, rtol=1e-4, atol=1e-6)
    torch.testing.assert_close(our_entropies.grad, entropies.grad, rtol=1e-4, atol=1e-7)
    assert float(metrics["kl"]) == pytest.approx(float(of_kl.detach()[mask].mean()), rel=1e-4)


def test_low_precision_and_what_is_masked():
    given = arrays() | {"loss_agg_mode": "token-mean", "config": actor()}
    ours = core_algos.get_policy_loss_fn("hunkwise_vanilla")
    _, wanted, _ = gradient(ours, given)
    for name in ("old_log_prob", "log_prob", "advantages"):
        given[name] = torch.where(given["response_mask"], given[name], torch.nan)
    loss, grad, _ = gradient(ours, given)
    assert math.isfinite(float(loss))
    torch.testing.assert_close(grad, wanted, rtol=0, atol=0)
    low = given | {name: given[name].bfloat16() for name in ("old_log_prob", "log_prob")}
    _, of_low, _ = gradient(ours, low)
    assert of_low.dtype == torch.bfloat16


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"loss_agg_mode": "mean"}, "loss_agg_mode is 'mean'"),
        ({"config": None}, "config is None"),
        ({"config": actor({"dp_size": 2})}, "needs the count of the whole batch"),
    ],
)
def test_what_does_not_fit_is_named(changes, message):
    given = arrays() | {"loss_agg_mode": "token-mean", "config": actor()}
    with pytest.raises(ValueError, match=message):
        plugin.policy_loss("vanilla", **given | changes)
    with pytest.raises(ValueError, match="kind is 'ppo'"):
        plugin.policy_loss("ppo", **given)
