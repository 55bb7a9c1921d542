"""Policy losses against torch on the CPU: the same result in eager code, and compiled where that is usual."""

import statistics

import numpy
import torch

import timing
from expected import Different

THREADS = 2
# Gradients of two f32 computations may differ by this share of the largest.
TOLERANCE = 2e-5
CLIP = {"surrogate": {"type": "clip", "low": 0.2, "high": 0.28, "dual": None}, "reduction": {"type": "token_mean"}}


def resident(field):
    with open("/proc/self/status") as status:
        line = next(line for line in status if line.startswith(field))
    return int(line.split()[1]) * 1024


def peak_of(run):
    """Bytes that a call took at most beyond what was resident before."""
    with open("/proc/self/clear_refs", "w") as clear:
        clear.write("5")
    before = resident("VmRSS:")
    run()
    return max(0, resident("VmHWM:") - before)


def give(worker, **arrays):
    for name, values in arrays.items():
        if values.dtype == torch.int64:
            worker.write(f"{name}.i64", values.numpy(), "<i8")
        else:
            worker.write(f"{name}.f32", values.detach().numpy(), "<f4")
    names = [name for name, values in arrays.items() if values.dtype != torch.int64]
    worker("loss_arrays", folder=str(worker.folder), names=names)


def ours(worker, operation, columns, config, out=None):
    return worker("loss", operation=operation, columns=columns, config=config, threads=THREADS, out=out)


def compare(name, got, want):
    want = want.detach().numpy().ravel()
    worst = float(numpy.abs(got - want).max() / max(numpy.abs(want).max(), 1e-30))
    if not worst <= TOLERANCE:
        raise Different(f"{name}: differs from torch by {worst:.2g} of the largest")
    return worst


def row(worker, name, peer, shape, operation, columns, config, theirs, hits):
    """Both in turns; `theirs` runs once."""
    timed = timing.in_turns(lambda: ours(worker, operation, columns, config)["seconds"], lambda: timing.clock(theirs))
    extra = ours(worker, operation, columns, config)["extra_bytes"]
    memory = f"{extra / 2**20:.0f} MiB, torch {peak_of(theirs) / 2**20:.0f} MiB"
    return {"row": f"{name}, {THREADS} threads", "peer": peer, "shape": shape, "hits": f"{hits}; extra memory {memory}", **timed}


def policy_rows(worker, n_rows, n_columns, is_timed=True):
    torch.manual_seed(0)
    old = torch.randn(n_rows, n_columns) * 0.1 - 1
    new = (old + torch.randn(n_rows, n_columns) * 0.05).requires_grad_(True)
    reference = old + torch.randn(n_rows, n_columns) * 0.05
    advantage = torch.randn(n_rows, n_columns)
    mask = (torch.rand(n_rows, n_columns) < 0.7).float()

    def loss(new, old, reference, advantage, mask):
        ratio = torch.exp(torch.clamp(new - old, -20, 20))
        plain, held = -advantage * ratio, -advantage * torch.clamp(ratio, 0.8, 1.28)
        clipped = torch.maximum(plain, held)
        fraction = ((held > plain).float() * mask).sum() / mask.sum()
        value = torch.where(advantage < 0, torch.min(-advantage * 3.0, clipped), clipped)
        d = reference - new
        k3 = torch.exp(d) - d - 1
        kl = ((old - new) * mask).sum() / mask.sum()
        return ((value + 0.01 * k3) * mask).sum() / mask.sum(), fraction, kl

    def call(function):
        new.grad = None
        value, fraction, kl = function(new, old, reference, advantage, mask)
        value.backward()
        return float(value.detach()), float(fraction), float(kl.detach())

    config = {"surrogate": {"type": "clip", "low": 0.2, "high": 0.28, "dual": 3.0}, "beta": 0.01, "kl": "k3",
              "reduction": {"type": "token_mean"}}
    give(worker, log_prob=new, old=old, reference=reference, advantage=advantage, mask=mask)
    want = call(loss)[0]
    got = ours(worker, "policy_loss", n_columns, config, str(worker.folder))
    if abs(got["loss"] - want) > 1e-5 * abs(want):
        raise Different(f"policy_loss: {got['loss']}, torch {want}")
    worst = compare("policy_loss", worker.array("grad.f32", "<f4"), new.grad)
    if not is_timed:
        return
    shape = f"{n_rows} x {n_columns} f32, clip with dual clip, k3"
    hits = f"gradients within {worst:.1g}"
    name = "policy_loss: loss, gradient, metrics"
    eager = row(worker, name, "torch eager", shape, "policy_loss", n_columns, config, lambda: call(loss), hits)
    # Four arrays of f32 and a mask in, one of f32 out.
    share = 21 * new.numel() / eager["ours_seconds"] / copy_rate()
    hits += f"; {share:.0%} of the rate of a copy"
    yield {**eager, "hits": hits}
    compiled = torch.compile(loss)
    call(compiled)
    call(compiled)
    yield row(worker, name, "torch.compile", shape, "policy_loss", n_columns, config, lambda: call(compiled), hits)


def copy_rate():
    """Bytes read and written in a second by torch's copy of a large array."""
    a, b = torch.randn(50_000_000), torch.empty(50_000_000)
    return 8 * len(a) / statistics.median(timing.clock(lambda: b.copy_(a)) for _ in range(9))


def clipped(log_prob, old, advantage):
    ratio = torch.exp(log_prob - old)
    return -torch.min(ratio * advantage, torch.clamp(ratio, 0.8, 1.28) * advantage).mean()


def logits_rows(worker, n, n_vocab, is_timed=True):
    torch.manual_seed(1)
    logits = torch.randn(n, n_vocab) * 2
    targets, advantage = torch.randint(0, n_vocab, (n,)), torch.randn(n)
    old = torch.log_softmax(logits, -1).gather(1, targets[:, None]).squeeze(1) + torch.randn(n) * 0.2
    give(worker, logits=logits, targets=targets, old=old, advantage=advantage)

    short = logits.bfloat16()

    def log_probs():
        log_softmax = torch.log_softmax(short.float(), -1)
        entropy = -(log_softmax.exp() * log_softmax).sum(-1)
        return log_softmax.gather(1, targets[:, None]).squeeze(1), entropy

    ours(worker, "token_logprob", n_vocab, CLIP, str(worker.folder))
    want, entropy = log_probs()
    worst = max(
        compare("token_logprob", worker.array("log_prob.f32", "<f4"), want),
        compare("token_logprob, entropy", worker.array("entropy.f32", "<f4"), entropy),
    )
    shape = f"{n} x {n_vocab}"
    if is_timed:
        yield row(worker, "token_logprob with entropy", "torch eager in f32", f"{shape} bf16", "token_logprob", n_vocab, CLIP,
                  log_probs, f"within {worst:.1g}")

    logits.requires_grad_(True)

    def loss():
        logits.grad = None
        value = clipped(torch.log_softmax(logits, -1).gather(1, targets[:, None]).squeeze(1), old, advantage)
        value.backward()
        return float(value.detach())

    want = loss()
    got = ours(worker, "logits_loss", n_vocab, CLIP, str(worker.folder))
    if abs(got["loss"] - want) > 1e-5 * max(abs(want), 1.0):
        raise Different(f"logits_loss: {got['loss']}, torch {want}")
    worst = compare("logits_loss", worker.array("grad.f32", "<f4"), logits.grad)
    if is_timed:
        yield row(worker, "logits_loss, gradient in place", "torch eager", f"{shape} f32", "logits_loss", n_vocab, CLIP, loss,
                  f"gradients within {worst:.1g}")


def linear_rows(worker, n, n_hidden, n_vocab, is_timed=True):
    torch.manual_seed(2)
    hidden = torch.randn(n, n_hidden) * 0.5
    weight = torch.randn(n_vocab, n_hidden) * 0.06
    targets, advantage = torch.randint(0, n_vocab, (n,)), torch.randn(n)
    with torch.no_grad():
        old = torch.cat([
            torch.log_softmax(part @ weight.T, -1).gather(1, ids[:, None]).squeeze(1)
            for part, ids in zip(hidden.split(128), targets.split(128))
        ]) + torch.randn(n) * 0.2
    give(worker, hidden=hidden, weight=weight, targets=targets, old=old, advantage=advantage)
    hidden.requires_grad_(True)
    weight.requires_grad_(True)
    # There before the clock starts, as ours are.
    hidden.grad, weight.grad = torch.zeros_like(hidden), torch.zeros_like(weight)

    def loss():
        hidden.grad.zero_()
        weight.grad.zero_()
        logits = hidden @ weight.T
        value = clipped(torch.log_softmax(logits, -1).gather(1, targets[:, None]).squeeze(1), old, advantage)
        del logits
        value.backward()
        return float(value.detach())

    want = loss()
    got = ours(worker, "linear_loss", n_vocab, CLIP, str(worker.folder))
    if abs(got["loss"] - want) > 1e-5 * max(abs(want), 1.0):
        raise Different(f"linear_loss: {got['loss']}, torch {want}")
    worst = max(
        compare("linear_loss, hidden", worker.array("grad_hidden.f32", "<f4"), hidden.grad),
        compare("linear_loss, weight", worker.array("grad_weight.f32", "<f4"), weight.grad),
    )
    if is_timed:
        shape = f"{n} tokens, hidden {n_hidden}, {n_vocab} columns, f32"
        yield row(worker, "linear_loss, both gradients", "torch eager", shape, "linear_loss", n_vocab, CLIP, loss,
                  f"gradients within {worst:.1g}")


def rows(worker, is_small=False):
    torch.set_num_threads(THREADS)
    if is_small:
        yield from policy_rows(worker, 24, 512)
        yield from logits_rows(worker, 32, 15_193)
        yield from linear_rows(worker, 128, 128, 15_193)
        return
    yield from policy_rows(worker, 192, 4096)
    yield from logits_rows(worker, 256, 151_936)
    yield from linear_rows(worker, 1024, 1024, 151_936)
