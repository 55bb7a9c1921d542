"""TRL as it is installed, on the CPU, with a tiny model of random weights."""

import copy
import os

import numpy as np
import pytest

os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")
torch = pytest.importorskip("torch")
trl = pytest.importorskip("trl")

from datasets import Dataset  # noqa: E402
from tokenizers import Tokenizer, decoders, models, pre_tokenizers  # noqa: E402
from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM  # noqa: E402

import hunkwise  # noqa: E402
from hunkwise import torch as ht  # noqa: E402
from hunkwise.trl import DiDPOTrainer  # noqa: E402

GOOD = '<edit path="a.py"><search>\npass\n</search><replace>\nreturn sum(prices)\n</replace></edit>'
BAD = '<edit path="a.py"><search>\npass\n</search><replace>\nreturn max(prices) + tax\n</replace></edit>'
LONG = "Let me think. " + GOOD
COMPLETIONS = [GOOD, BAD, LONG, "I do not know."]


def tokenizer():
    """A byte-level tokenizer with a token for each byte."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {"<pad>": 0, "<eos>": 1} | {one: 2 + i for i, one in enumerate(alphabet)}
    made = Tokenizer(models.BPE(vocabulary, []))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    made.decoder = decoders.ByteLevel()
    made.add_special_tokens(["<pad>", "<eos>"])
    return PreTrainedTokenizerFast(tokenizer_object=made, pad_token="<pad>", eos_token="<eos>")


def model(seed=0):
    torch.manual_seed(seed)
    config = Qwen2Config(
        vocab_size=260, hidden_size=16, intermediate_size=32, num_hidden_layers=1, num_attention_heads=2,
        num_key_value_heads=1, pad_token_id=0, eos_token_id=1, bos_token_id=None,
    )  # fmt: skip
    return Qwen2ForCausalLM(config)


def reward(completions, **_):
    return [float("sum(prices)" in completion) for completion in completions]


def rollouts(prompts, trainer):
    """Completions that are given instead of sampled: four to a prompt, in turn."""
    encode = lambda text: trainer.processing_class(text, add_special_tokens=False)["input_ids"]  # noqa: E731
    ids = [encode(COMPLETIONS[i % 4]) + [1] for i in range(len(prompts))]
    prompt_ids = [encode(prompt) for prompt in prompts]
    return {"prompt_ids": prompt_ids, "completion_ids": ids, "logprobs": [[-1.0] * len(one) for one in ids]}


def trainer(kind, folder, *, steps=2, **given):
    settings = {
        "loss_type": "dapo", "num_generations": 4, "per_device_train_batch_size": 4, "gradient_accumulation_steps": 2,
        "max_completion_length": 200, "max_steps": steps, "learning_rate": 1e-2, "report_to": [], "use_cpu": True,
        "bf16": False, "logging_steps": 1, "save_strategy": "no", "output_dir": str(folder), "seed": 3, "beta": 0.0,
    }  # fmt: skip
    extra = {"credit": given.pop("credit")} if "credit" in given else {}
    return kind(
        model=model(),
        reward_funcs=reward,
        args=trl.GRPOConfig(**settings | given),
        train_dataset=Dataset.from_dict({"prompt": ["Fix a.py: ", "Mend it: "] * 8}),
        processing_class=tokenizer(),
        rollout_func=rollouts,
        **extra,
    )


def test_with_lambda_0_training_is_that_of_grpo(tmp_path):
    """Losses, gradients and so the weights after some steps of Adam, to the last bit."""
    plain = trainer(trl.GRPOTrainer, tmp_path / "grpo", steps=3)
    plain.train()
    ours = trainer(DiDPOTrainer, tmp_path / "didpo", steps=3, credit={"advantage": {"lambda": 0.0}})
    ours.train()
    start = model().state_dict()
    for name, value in plain.model.state_dict().items():
        assert torch.equal(value, ours.model.state_dict()[name]), name
    assert any(not torch.equal(value, start[name]) for name, value in plain.model.state_dict().items())
    losses = [[entry["loss"] for entry in one.state.log_history if "loss" in entry] for one in (plain, ours)]
    assert losses[0] == losses[1] and len(losses[0]) == 3


def test_tokens_of_a_recurring_snippet_have_their_own_advantage(tmp_path):
    ours = trainer(DiDPOTrainer, tmp_path, credit={"advantage": {"lambda": 1.2}})
    seen = []
    original = ours._compute_loss
    ours._compute_loss = lambda model, inputs: seen.append(copy.copy(inputs)) or original(model, inputs)
    ours.train()
    decode = tokenizer().decode
    of_text = {}
    for inputs in seen[:2]:
        assert inputs["advantages"].shape == inputs["completion_ids"].shape
        for ids, one in zip(inputs["completion_ids"], inputs["advantages"], strict=True):
            of_text[decode(ids[ids > 1])] = one
    good, long, bad, silent = (of_text[text] for text in (GOOD, LONG, BAD, "I do not know."))
    episode = good[0].item()
    assert long[0].item() == episode > 0 > bad[0].item() == silent[0].item()
    # `pass` is deleted in three rollouts with returns 1, 1 and 0: A^D is 1/3 for the good, -2/3 for the bad.
    at = GOOD.index("pass")
    np.testing.assert_allclose(good[at : at + 4], episode + 1.2 / 3, rtol=1e-5)
    np.testing.assert_allclose(bad[at : at + 4], bad[0].item() - 1.2 * 2 / 3, rtol=1e-5)
    # The line with sum(prices) is in the two good ones alone, which are alike: nothing is added.
    at = LONG.index("sum(prices)")
    np.testing.assert_allclose(long[at : at + 11], episode, rtol=1e-5)
    assert any("hunkwise/trajectories" in entry for entry in ours.state.log_history)


LOSSES = {
    "grpo": {},
    "bnpo": {},
    "dr_grpo": {},
    "dapo": {"epsilon_high": 0.28},
    "luspo": {"importance_sampling_level": "sequence"},
    "sapo": {},
    "cispo": {"epsilon_high": 5.0},
    "gspo": {"loss_type": "grpo", "importance_sampling_level": "sequence", "epsilon": 3e-4, "epsilon_high": 4e-4},
    "grpo_delta": {"loss_type": "grpo", "delta": 1.5},
    "grpo_kl": {"loss_type": "grpo", "beta": 0.04},
    "dapo_kl_corrected": {"loss_type": "dapo", "beta": 0.04, "use_bias_correction_kl": True},
    "dapo_entropy": {"loss_type": "dapo", "entropy_coef": 0.01},
}


def config_of(name, args, beta):
    """Our configuration of a loss of TRL's."""
    preset = {"cispo": "cispo_trl"}.get(name, name.split("_")[0] if name != "dr_grpo" else name)
    changes = {"beta": beta}
    if args.use_bias_correction_kl:
        changes["kl"] = "k3_corrected"
    if preset in ("grpo", "bnpo", "dr_grpo", "dapo", "gspo", "luspo"):
        high = args.epsilon_high if args.epsilon_high is not None else args.epsilon
        changes["surrogate"] = {"low": args.epsilon, "high": high, "dual": args.delta}
    if preset == "cispo_trl":
        changes["surrogate"] = {"max": args.epsilon_high}
    if preset == "dr_grpo":
        changes["reduction"] = {"length": args.max_completion_length}
    return hunkwise.loss_config(preset, **changes)


@pytest.mark.parametrize("name", LOSSES)
def test_every_loss_of_trl_has_its_value_and_gradient(tmp_path, name):
    """`GRPOTrainer._compute_loss` itself, on ragged masks and drifted log-probs, against ours."""
    args = {"loss_type": name} | LOSSES[name]
    beta = args.pop("beta", 0.0)
    theirs = trainer(trl.GRPOTrainer, tmp_path, gradient_accumulation_steps=1, **args)
    # Given to the constructor, it would load a reference model by its name.
    theirs.beta = beta
    theirs.current_gradient_accumulation_steps = 1
    generator = torch.Generator().manual_seed(5)
    n_rows, n_tokens = 5, 12
    old = -3 * torch.rand(n_rows, n_tokens, generator=generator)
    log_prob = old + 0.4 * torch.randn(n_rows, n_tokens, generator=generator)
    lengths = torch.tensor([12, 7, 1, 9, 4])
    mask = (torch.arange(n_tokens) < lengths[:, None]).long()
    entropies = torch.rand(n_rows, n_tokens, generator=generator)
    reference = log_prob + 0.3 * torch.randn(n_rows, n_tokens, generator=generator)
    inputs = {
        "prompt_ids": torch.zeros(n_rows, 1, dtype=torch.long), "prompt_mask": torch.ones(n_rows, 1).long(),
        "completion_ids": torch.zeros(n_rows, n_tokens, dtype=torch.long), "completion_mask": mask,
        "tool_mask": (torch.rand(n_rows, n_tokens, generator=generator) < 0.9).long(),
        "advantages": torch.randn(n_rows, generator=generator), "num_items_in_batch": torch.tensor(40),
        "old_per_token_logps": old, "ref_per_token_logps": reference,
    }  # fmt: skip
    inputs["tool_mask"][2, 0] = 1
    of_trl = log_prob.clone().requires_grad_()
    entropies_of_trl = entropies.clone().requires_grad_()
    theirs._get_per_token_logps_and_entropies = lambda *_, **__: (of_trl, entropies_of_trl, None)
    wanted = theirs._compute_loss(theirs.model, inputs)
    wanted.backward()

    trained = mask * inputs["tool_mask"]
    ours = log_prob.clone().requires_grad_()
    config = config_of(name, theirs.args, beta)
    # TRL divides its sums over the whole generation batch by its count; here the batch is one step.
    denominator = 40.0 / theirs.args.steps_per_generation if theirs.args.loss_type in ("dapo", "cispo") else None
    loss, _ = ht.policy_loss(
        ours, trained, inputs["advantages"], old=old, reference=reference, config=config, denominator=denominator
    )
    if theirs._entropy_bonus_enabled:
        # A mean over the tokens of the batch, whatever the loss divides by.
        loss = loss - theirs.args.entropy_coef * (entropies * trained).sum() / trained.sum()
    loss.backward()
    torch.testing.assert_close(loss, wanted, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(ours.grad, of_trl.grad, rtol=1e-4, atol=1e-6)
    assert of_trl.grad.abs().max() > 1e-4
