"""The adapters of slime, rLLM, SkyRL, NeMo-RL and prime-rl, against the calls that these trainers make.

The trainers cannot be installed on a machine without a GPU; what stands for them here has the fields and the calls that
were read in their sources, at the commit that each section names. Where a checkout of rLLM is named (`HUNKWISE_RLLM`),
rLLM itself is run.
"""

import asyncio
import os
import pickle
import sys
import types
from dataclasses import dataclass, field
from types import SimpleNamespace

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from byte_tokenizer import byte_tokenizer  # noqa: E402

import hunkwise  # noqa: E402
from hunkwise import _peers, nemo_rl, prime_rl, rllm, skyrl, slime  # noqa: E402

GOOD = '<edit path="a.py"><search>\npass\n</search><replace>\nreturn sum(prices)\n</replace></edit>'
BAD = '<edit path="a.py"><search>\npass\n</search><replace>\nreturn max(prices) + tax\n</replace></edit>'
TOKENIZER = byte_tokenizer()
LINE = "return sum(prices)"
# A task of four rollouts, of which 0, 2 and 3 have the line, with the outcomes 1, 0, 1; the mean is 2/3. All four
# delete `pass`, with a mean of 1/2.
TEXTS = [GOOD, BAD, "I look. " + GOOD, GOOD]
OUTCOMES = [1.0, 0.0, 0.0, 1.0]
LINE_ADVANTAGES = [1 / 3, None, -2 / 3, 1 / 3]
PASS_ADVANTAGES = [0.5, -0.5, -0.5, 0.5]
CONFIG = {"advantage": {"lambda": 0.5}}


def encode(text):
    return TOKENIZER.encode(text, add_special_tokens=False)


def check(text, added, row):
    """What was added to the tokens of a row (a token is a byte), against the numbers above."""
    wanted = [0.0] * len(text)
    for piece, advantages in ((LINE, LINE_ADVANTAGES), ("pass", PASS_ADVANTAGES)):
        if advantages[row] is not None:
            at = text.index(piece)
            wanted[at : at + len(piece)] = [0.5 * advantages[row]] * len(piece)
    if row == 1:
        # The line that BAD alone has is in no group.
        assert LINE not in text
    # Line ends belong to the line or not; only what is inside of it is compared.
    inside = [i for i in range(len(text)) if text[i] != "\n"]
    np.testing.assert_allclose([added[i] for i in inside], [wanted[i] for i in inside], rtol=1e-5, atol=1e-6)


# slime 624b824: slime/utils/types.py Sample; slime/ray/rollout.py _post_process_rewards and _split_train_data_by_dp;
# slime/backends/megatron_utils/loss.py compute_advantages_and_returns; observability/train_metric_utils.py.


@dataclass
class Sample:
    group_index: int | None = None
    index: int | None = None
    rollout_id: int | None = None
    prompt: str = ""
    tokens: list[int] = field(default_factory=list)
    response: str = ""
    response_length: int = 0
    reward: float | dict | None = None
    loss_mask: list[int] | None = None
    remove_sample: bool = False

    def get_reward_value(self, args):
        return self.reward if not args.reward_key else self.reward[args.reward_key]


@pytest.fixture
def slime_args(tmp_path, monkeypatch):
    TOKENIZER.save_pretrained(tmp_path)
    (tmp_path / "credit.toml").write_text("[advantage]\nlambda = 0.5\n")
    if sys.version_info >= (3, 11):
        monkeypatch.setenv("HUNKWISE_CONFIG", str(tmp_path / "credit.toml"))
    return SimpleNamespace(hf_checkpoint=str(tmp_path), reward_key=None)


def slime_samples():
    prompt = encode("Fix it. ")
    samples = []
    for i, (text, outcome) in enumerate(zip(TEXTS, OUTCOMES, strict=True)):
        ids = encode(text)
        samples.append(Sample(0, i, None, "", prompt + ids, text, len(ids), outcome))
    return samples


@pytest.mark.skipif(sys.version_info < (3, 11), reason="the file of parameters needs tomllib")
def test_slime_from_samples_to_tensors(slime_args):
    samples = slime_samples()
    samples[2].loss_mask = [0] * 8 + [1] * (samples[2].response_length - 8)
    raw, rewards = slime.credit(slime_args, samples)
    assert raw == OUTCOMES and len(rewards) == 4
    # What slime does with rewards besides: sums them for its log, sends them through Ray.
    assert sum(rewards) == pytest.approx(0.0, abs=1e-6)
    sent = pickle.loads(pickle.dumps(rewards))
    episode = 0.5 / (np.std(OUTCOMES, ddof=1) + 1e-6)
    assert [float(one) for one in sent] == pytest.approx([episode, -episode, -episode, episode], rel=1e-5)
    partition = [3, 2]
    rollout_data = {
        "rewards": [sent[j] for j in partition],
        "kl": [torch.zeros(samples[j].response_length) for j in partition],
        "response_lengths": [samples[j].response_length for j in partition],
        "total_lengths": [len(samples[j].tokens) for j in partition],
    }
    assert slime.advantages(slime_args, rollout_data) is None
    for j, found, returns in zip(partition, rollout_data["advantages"], rollout_data["returns"], strict=True):
        assert found.dtype == torch.float32 and found.shape == (samples[j].response_length,)
        torch.testing.assert_close(found, returns, rtol=0, atol=0)
        assert found is not returns
        mask = np.array(samples[j].loss_mask or [1] * len(found))
        assert not found.numpy()[mask == 0].any()
        added = np.where(mask, found.numpy() - float(sent[j]), 0.0)
        check(TEXTS[j], added, j)


def test_slime_takes_its_part_of_a_sequence(monkeypatch, slime_args):
    """Context parallelism: slime's own function cuts a response, and is given its lengths."""
    called = []

    def slice_log_prob_with_cp(values, total_length, response_length):
        called.append((total_length, response_length))
        return values[2:5]

    module = types.ModuleType("slime.backends.megatron_utils.cp_utils")
    module.slice_log_prob_with_cp = slice_log_prob_with_cp
    for name in ("slime", "slime.backends", "slime.backends.megatron_utils"):
        monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
    monkeypatch.setitem(sys.modules, module.__name__, module)
    reward = slime.TokenReward(0.0, np.arange(8, dtype=np.float32))
    data = {"rewards": [reward], "kl": [torch.zeros(3)], "total_lengths": [20], "response_lengths": [8]}
    slime.advantages(slime_args, data)
    assert called == [(20, 8)]
    assert data["advantages"][0].tolist() == [2.0, 3.0, 4.0]
    data["kl"] = [torch.zeros(4)]
    with pytest.raises(ValueError, match="3 advantages for 4 tokens"):
        slime.advantages(slime_args, data)


def test_slime_samples_of_one_rollout_are_its_turns(slime_args):
    samples = slime_samples()
    for sample, rollout in zip(samples, (7, 7, 8, 9), strict=True):
        sample.rollout_id = rollout
    samples[0].reward = samples[1].reward = 1.0
    _, rewards = slime.credit(slime_args, samples)
    # Three rollouts with the scores 1, 0 and 1.
    std = np.std([1, 0, 1], ddof=1) + 1e-6
    wanted = [(1 - 2 / 3) / std, (1 - 2 / 3) / std, (0 - 2 / 3) / std, (1 - 2 / 3) / std]
    assert [float(one) for one in rewards] == pytest.approx(wanted, rel=1e-5)


def test_slime_errors(slime_args):
    samples = slime_samples()
    samples[1].group_index = None
    with pytest.raises(ValueError, match=r"samples\[1\].group_index is None"):
        slime.credit(slime_args, samples)
    samples = slime_samples()
    samples[2].loss_mask = [1]
    with pytest.raises(ValueError, match=r"samples\[2\] has \d+ tokens and a loss mask of 1"):
        slime.credit(slime_args, samples)
    with pytest.raises(TypeError, match="hunkwise.slime.credit too"):
        slime.advantages(slime_args, {"rewards": [1.0], "kl": [torch.zeros(1)]})


# rLLM 9beb6e0: rllm/types.py Step, Trajectory, TrajectoryGroup; rllm/trainer/algorithms/advantage.py;
# rllm/trainer/tinker/transform.py (a list has the length of the response).


def rllm_groups(make_step=SimpleNamespace, make_trajectory=SimpleNamespace, make_group=SimpleNamespace):
    trajectories = []
    for text, outcome in zip(TEXTS, OUTCOMES, strict=True):
        steps = [make_step(response_ids=encode(text), advantage=None)]
        if text is TEXTS[2]:
            steps.append(make_step(response_ids=encode("Done."), advantage=None))
        trajectories.append(make_trajectory(steps=steps, reward=outcome))
    return [make_group(trajectories=trajectories, group_id="shop:solver")]


def check_rllm(groups, episode):
    for row, trajectory in enumerate(groups[0].trajectories):
        step = trajectory.steps[0]
        assert isinstance(step.advantage, list) and len(step.advantage) == len(step.response_ids)
        if row != 2:
            check(TEXTS[row], np.array(step.advantage) - episode[row], row)
    # Its return is discounted by the turn after it.
    second = groups[0].trajectories[2].steps[1]
    assert second.advantage == pytest.approx([episode[2]] * 5)


def test_rllm_steps_get_lists():
    groups = rllm_groups()
    made = rllm.credit(groups, TOKENIZER, CONFIG)
    assert made.to_metrics()["hunkwise/trajectories"] == 4.0
    episode = 0.5 / (np.std(OUTCOMES, ddof=1) + 1e-6)
    check_rllm(groups, [episode, -episode, -episode, episode])
    groups = rllm_groups()
    groups[0].trajectories[0].steps[0].advantage = [0.0]
    with pytest.raises(ValueError, match="group 'shop:solver', trajectory 0, step 0: 1 advantages for"):
        rllm.credit(groups, TOKENIZER)


def test_rllm_steps_without_tokens_are_left_alone():
    step = SimpleNamespace(response_ids=[], advantage=0.25)
    group = SimpleNamespace(trajectories=[SimpleNamespace(steps=[step], reward=1.0)], group_id="g")
    assert rllm.credit([group], TOKENIZER) is None
    assert step.advantage == []


def test_rllm_itself(monkeypatch):
    folder = os.environ.get("HUNKWISE_RLLM")
    if not folder:
        pytest.skip("HUNKWISE_RLLM does not name a checkout of rLLM 9beb6e0")
    monkeypatch.syspath_prepend(folder)
    rllm.install(TOKENIZER, CONFIG)
    import rllm as theirs
    from rllm.trainer.algorithms import AlgorithmConfig, collect_reward_and_advantage_from_trajectory_groups
    from rllm.types import Step, Trajectory, TrajectoryGroup

    assert os.path.realpath(folder) in os.path.realpath(theirs.__file__)
    groups = rllm_groups(Step, Trajectory, TrajectoryGroup)
    metrics = collect_reward_and_advantage_from_trajectory_groups(groups, AlgorithmConfig())
    assert metrics["reward/solver/mean"] == 0.5 and metrics["hunkwise/trajectories"] == 4.0
    # rLLM's own GRPO, which takes the population's deviation.
    plain = rllm_groups(Step, Trajectory, TrajectoryGroup)
    collect_reward_and_advantage_from_trajectory_groups._hunkwise_inner(plain, AlgorithmConfig())
    episode = [trajectory.steps[0].advantage for trajectory in plain[0].trajectories]
    assert isinstance(episode[0], float) and episode[0] > 0 > episode[1]
    check_rllm(groups, episode)


def test_rllms_verl_backend_is_refused(monkeypatch):
    monkeypatch.setitem(
        sys.modules, "rllm.trainer.verl.verl_backend", types.ModuleType("rllm.trainer.verl.verl_backend")
    )
    with pytest.raises(RuntimeError, match="one advantage for a trajectory"):
        rllm.install(TOKENIZER)


# SkyRL a956457: skyrl/train/trainer.py convert_to_training_input, compute_advantages_and_returns;
# skyrl/train/dataset/preprocess.py (rows are padded on the left, what belongs to responses is aligned to the right).


class TrainingInputBatch(dict):
    metadata: dict


def skyrl_batch(texts, outcomes, uids, is_last=None, n_padding=1):
    prompts = [encode("Fix it." + "!" * (i % 3)) for i in range(len(texts))]
    responses = [encode(text) for text in texts]
    total = max(len(p) + len(r) for p, r in zip(prompts, responses, strict=True))
    width = max(map(len, responses))
    n_rows = len(texts) + n_padding
    data = TrainingInputBatch(
        sequences=torch.zeros(n_rows, total, dtype=torch.long),
        response_mask=torch.zeros(n_rows, width, dtype=torch.long), loss_mask=torch.zeros(n_rows, width),
        rewards=torch.zeros(n_rows, width),
    )  # fmt: skip
    for i, (prompt, response, outcome) in enumerate(zip(prompts, responses, outcomes, strict=True)):
        ids = torch.tensor(prompt + response)
        data["sequences"][i, total - len(ids) :] = ids
        data["response_mask"][i, width - len(response) :] = 1
        data["loss_mask"][i, width - len(response) :] = 1.0
        data["rewards"][i, -1] = outcome
    # Rows that fill up a batch are copies of the first.
    for name in data:
        data[name][len(texts) :] = data[name][0]
    data.metadata = {"uids": uids, "pad_size": n_padding}
    if is_last is not None:
        data.metadata["is_last_step"] = is_last
    return data


class SkyRLTrainer:
    """`compute_advantages_and_returns` of SkyRL's trainer with an estimator that gives rewards without their mean."""

    tokenizer = TOKENIZER

    def __init__(self):
        self.all_metrics = {}

    def compute_advantages_and_returns(self, data):
        scores = data["rewards"].sum(-1, keepdim=True)
        data["advantages"] = (scores - 0.5) * data["response_mask"].float()
        data["returns"] = data["advantages"]
        return data


class DiDPOSkyRLTrainer(skyrl.DiDPOMixin, SkyRLTrainer):
    hunkwise_config = CONFIG


def test_skyrl_adds_to_what_its_trainer_computes():
    trainer = DiDPOSkyRLTrainer()
    data = skyrl_batch(TEXTS, OUTCOMES, ["shop"] * 4)
    data["loss_mask"][2, -3:] = 0.0
    found = trainer.compute_advantages_and_returns(data)
    assert found is data and trainer.all_metrics["hunkwise/trajectories"] == 4.0
    width = data["response_mask"].shape[1]
    for row, (text, outcome) in enumerate(zip(TEXTS, OUTCOMES, strict=True)):
        first = width - len(text)
        assert not data["advantages"][row, :first].any()
        check(text, data["advantages"][row, first:].numpy() - (outcome - 0.5), row)
    torch.testing.assert_close(data["returns"], data["advantages"], rtol=0, atol=0)
    # The row that fills up has what SkyRL gave it.
    assert set(data["advantages"][4].tolist()) <= {0.0, 0.5}


def test_skyrl_rows_that_are_steps():
    texts = [TEXTS[0], BAD, "I look.", TEXTS[2], TEXTS[3]]
    # The second trajectory has two steps; the first step's reward is not its score.
    outcomes = [1.0, 0.0, 0.9, 0.0, 1.0]
    data = skyrl_batch(texts, outcomes, ["shop"] * 5, [True, True, False, True, True], n_padding=0)
    data["advantages"] = torch.zeros(data["response_mask"].shape)
    made = skyrl.add_credit(data, hunkwise.TokenBytes(TOKENIZER), CONFIG)
    assert [(row.trajectory, row.turn, row.score) for row in made.rows] == [
        ("0", 0, 1.0), ("1", 0, 0.0), ("2", 0, 0.0), ("2", 1, 0.0), ("3", 0, 1.0),
    ]  # fmt: skip
    width = data["response_mask"].shape[1]
    for at, row in ((0, 0), (1, 1), (3, 2), (4, 3)):
        check(texts[at], data["advantages"][at, width - len(texts[at]) :].numpy(), row)
    with pytest.raises(ValueError, match="1 uids for 5 rows"):
        data.metadata["uids"] = ["shop"]
        skyrl.add_credit(data, hunkwise.TokenBytes(TOKENIZER))


# NeMo-RL 7ea279a: nemo_rl/algorithms/advantage_estimator.py GRPOAdvantageEstimator; nemo_rl/algorithms/grpo.py (the
# call, and _create_advantage_estimator); nemo_rl/data/llm_message_utils.py (a sample is its messages one by one).


class NeMoEstimator:
    """What GRPOAdvantageEstimator gives with `normalize_rewards=False`: one number, expanded over the tokens."""

    use_leave_one_out_baseline = False

    def compute_advantage(self, prompt_ids, rewards, mask, **kwargs):
        assert {"repeated_batch", "logprobs_policy", "logprobs_reference"} <= set(kwargs)
        return (rewards - rewards.mean()).unsqueeze(-1).expand(mask.shape)


def nemo_batch():
    prompt = torch.tensor(encode("Fix it."))
    logs = [
        [
            {"role": "user", "content": "Fix it.", "token_ids": prompt},
            {"role": "assistant", "content": text, "token_ids": torch.tensor(encode(text))},
        ]
        for text in TEXTS
    ]
    tool = {"role": "environment", "content": " ok ", "token_ids": torch.tensor(encode(" ok "))}
    logs[2][1:2] = [
        {"role": "assistant", "content": "I look. ", "token_ids": torch.tensor(encode("I look. "))},
        tool,
        {"role": "assistant", "content": GOOD, "token_ids": torch.tensor(encode(GOOD))},
    ]
    lengths = [sum(len(message["token_ids"]) for message in log) for log in logs]
    mask = torch.zeros(4, max(lengths) + 3)
    for row, log in enumerate(logs):
        at = 0
        for message in log:
            n = len(message["token_ids"])
            mask[row, at : at + n] = float(message["role"] == "assistant")
            at += n
    return {
        "prompt_ids": prompt.unsqueeze(0).repeat(4, 1), "rewards": torch.tensor(OUTCOMES), "mask": mask,
        "repeated_batch": {"message_log": logs}, "logprobs_policy": torch.zeros_like(mask), "logprobs_reference": None,
    }  # fmt: skip


def test_nemo_rl_adds_to_its_estimator(monkeypatch):
    module = types.ModuleType("nemo_rl.algorithms.grpo")
    module._create_advantage_estimator = lambda master_config: NeMoEstimator()
    monkeypatch.setitem(sys.modules, module.__name__, module)
    nemo_rl.install(TOKENIZER, {"advantage": {"lambda": 9}})
    nemo_rl.install(TOKENIZER, CONFIG)
    estimator = module._create_advantage_estimator(SimpleNamespace())
    assert isinstance(estimator.estimator, NeMoEstimator) and estimator.use_leave_one_out_baseline is False
    given = nemo_batch()
    found = estimator.compute_advantage(**given)
    assert found.shape == given["mask"].shape
    starts = [7, 7, 7 + len("I look. "), 7]
    for row, text in enumerate(TEXTS):
        if row == 2:
            # Two turns with the tool's words between them.
            added = found[2] - (OUTCOMES[2] - 0.5)
            assert not added[: 7 + 8 + 4].any()
            check(TEXTS[2], torch.cat([added[7:15], added[19 : 19 + len(GOOD)]]).numpy(), 2)
            continue
        check(text, found[row, starts[row] : starts[row] + len(text)].numpy() - (OUTCOMES[row] - 0.5), row)
    assert estimator.credit.to_metrics()["hunkwise/trajectories"] == 4.0


def test_nemo_rl_errors():
    estimator = nemo_rl.WithDiffs(NeMoEstimator(), TOKENIZER)
    given = nemo_batch()
    with pytest.raises(RuntimeError, match="data_plane.enabled=false"):
        estimator.compute_advantage(**given | {"repeated_batch": {"total_reward": None}})
    short = {"mask": given["mask"][:, :20]}
    with pytest.raises(ValueError, match=r"message_log\[0\] has \d+ tokens, the mask 20"):
        estimator.compute_advantage(**given | short)


# prime-rl 559b447: src/prime_rl/orchestrator/algo/{__init__,base,grpo,routing}.py; src/prime_rl/trainer/rl/loss.py.


def prime_traces():
    traces = []
    for row, (text, reward) in enumerate(zip(TEXTS, OUTCOMES, strict=True)):
        ids, closing = encode(text), encode("\n")
        nodes = [
            SimpleNamespace(token_ids=encode("q"), mask=[False], advantages=None),
            # What closes a message is not sampled.
            SimpleNamespace(token_ids=ids + closing, mask=[True] * len(ids) + [False], advantages=None),
        ]
        if row == 2:
            nodes.append(SimpleNamespace(token_ids=encode("tool"), mask=[False] * 4, advantages=None))
        traces.append(SimpleNamespace(nodes=nodes, reward=reward, has_error=False, id=row))
    return traces


@pytest.fixture
def prime(monkeypatch):
    """The modules of prime-rl that are touched."""
    package, base = types.ModuleType("prime_rl.orchestrator.algo"), types.ModuleType("prime_rl.orchestrator.algo.base")

    class GRPOAlgorithm:
        async def score_group(self, episodes):
            traces = [trace for _, trace in base.iter_trainable_traces(episodes)]
            mean = sum(trace.reward for trace in traces) / len(traces)
            for trace in traces:
                for node in trace.nodes:
                    if any(node.mask):
                        node.advantages = [trace.reward - mean] * sum(node.mask)

    def iter_trainable_traces(episodes):
        for episode in episodes:
            yield from ((episode, trace) for trace in episode.traces if not trace.has_error)

    @dataclass
    class LossOutputs:
        loss: torch.Tensor
        metrics: dict

    base.iter_trainable_traces = iter_trainable_traces
    package.ALGORITHM_CLASSES = {"grpo": GRPOAlgorithm, "sft": object}
    losses = types.ModuleType("prime_rl.trainer.rl.loss")
    losses.LossOutputs = LossOutputs
    for name in ("prime_rl", "prime_rl.orchestrator", "prime_rl.trainer", "prime_rl.trainer.rl"):
        monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
    for module in (package, base, losses):
        monkeypatch.setitem(sys.modules, module.__name__, module)
    return package


def test_prime_rl_adds_to_its_algorithm(prime):
    prime_rl.install(TOKENIZER, {"advantage": {"lambda": 9}}, ["grpo"])
    prime_rl.install(TOKENIZER, CONFIG, ["grpo"])
    algorithm = prime.ALGORITHM_CLASSES["grpo"]
    assert algorithm.__name__ == "DiDPOGRPOAlgorithm"
    traces = prime_traces()
    failed = SimpleNamespace(nodes=[], reward=5.0, has_error=True)
    episodes = [SimpleNamespace(traces=[trace]) for trace in (*traces, failed)]
    asyncio.run(algorithm().score_group(episodes))
    for row, trace in enumerate(traces):
        found = trace.nodes[1].advantages
        assert len(found) == sum(trace.nodes[1].mask) and trace.nodes[0].advantages is None
        check(TEXTS[row], np.array(found) - (OUTCOMES[row] - 0.5), row)
    with pytest.raises(ValueError, match="no algorithm 'ppo'; it has grpo, sft"):
        prime_rl.install(TOKENIZER, CONFIG, ["ppo"])
    traces[0].nodes[1].advantages = [0.0]
    with pytest.raises(ValueError, match="trace 0, turn 0: 1 advantages for"):
        prime_rl.add_credit(traces, TOKENIZER)


def test_prime_rls_custom_loss(prime):
    generator = torch.Generator().manual_seed(2)
    inference = -2 * torch.rand(9, generator=generator)
    trainer = (inference + 0.3 * torch.randn(9, generator=generator)).requires_grad_()
    advantages = torch.randn(9, generator=generator)
    mask = torch.tensor([1, 1, 0, 1, 1, 1, 0, 1, 1], dtype=torch.bool)
    for weights in (None, torch.rand(9, generator=generator)):
        inputs = SimpleNamespace(
            trainer_logprobs=trainer, inference_logprobs=inference, ref_logprobs=None, advantages=advantages,
            loss_mask=mask, loss_weights=weights,
        )  # fmt: skip
        found = prime_rl.loss(inputs, preset="dapo")
        ratio = (trainer - inference).exp()
        of_tokens = -torch.min(ratio * advantages, ratio.clamp(0.8, 1.28) * advantages)
        wanted = (of_tokens * (1.0 if weights is None else weights))[mask].sum()
        torch.testing.assert_close(found.loss, wanted.detach(), rtol=1e-5, atol=1e-6, check_dtype=False)
        ours = torch.autograd.grad(found.loss, trainer)[0]
        torch.testing.assert_close(ours, torch.autograd.grad(wanted, trainer)[0], rtol=1e-4, atol=1e-6)
        log_ratio = (trainer - inference)[mask].detach()
        wanted_kl = (log_ratio.exp() - log_ratio - 1).mean()
        torch.testing.assert_close(found.metrics["mismatch_kl"], wanted_kl, rtol=1e-4, atol=1e-6)
        assert found.metrics["clip_fraction"].dim() == 0
    with pytest.raises(ValueError, match="reduction"):
        prime_rl.loss(inputs, reduction={"type": "token_mean"})
    with pytest.raises(ValueError, match="beta"):
        prime_rl.loss(inputs, beta=0.1)
    inputs.loss_weights = -inputs.loss_weights
    with pytest.raises(ValueError, match="below 0"):
        prime_rl.loss(inputs)


def test_rows_of_adapters_are_of_sampled_ids():
    tokens = hunkwise.TokenBytes(TOKENIZER)
    row = _peers.row(tokens, "t", 1, 2, encode("ab"), [True, False], float("nan"))
    assert row["text"] == b"ab" and list(row["token_ends"]) == [1, 2]
    assert row["mask"] == [1, 0] and row["outcome"] is None
    assert _peers.credit_of([None], hunkwise.Config()) == ([[]], None)
