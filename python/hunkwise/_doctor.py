"""Looks at a trainer as it is installed here: its version, what is registered with it, and what is not and why."""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata
from typing import Any

from . import __version__


@dataclass(frozen=True)
class Finding:
    """One thing looked at."""

    mark: str
    """`ok`, `NO` (should be there and is not) or `-` (for information)."""
    what: str

    @property
    def is_well(self) -> bool:
        return self.mark != "NO"

    def __str__(self) -> str:
        return f"{self.mark:<3} {self.what}"


TRAINERS = {
    "verl": ("verl", "0.9.1"),
    "trl": ("trl", "1.16.0"),
    "skyrl": ("skyrl", "0.3.0"),
    "slime": ("slime", "624b824"),
    "rllm": ("rllm", "9beb6e0"),
    "nemo-rl": ("nemo-rl", "7ea279a"),
    "prime-rl": ("prime-rl", "559b447"),
}
"""Package and the version that the adapter was written against."""


def examine(trainer: str | None = None) -> list[Finding]:
    """What there is to say of a trainer; of all of them, where none is named, their versions alone."""
    findings = [Finding("-", f"hunkwise {__version__}")]
    for name in TRAINERS if trainer is None else [trainer]:
        package, written_for = TRAINERS[name]
        try:
            version = metadata.version(package)
        except metadata.PackageNotFoundError:
            mark = "-" if trainer is None else "NO"
            findings.append(Finding(mark, f"{name} is not installed (the adapter was written against {written_for})"))
            continue
        findings.append(Finding("ok", f"{name} {version} (the adapter was written against {written_for})"))
        if name == "verl" and trainer is not None:
            findings.extend(_verl())
    return findings


def _verl() -> Iterator[Finding]:
    from . import verl as ours

    found = [one for one in metadata.entry_points(group="verl.plugins") if one.value.split(":")[0] == ours.__name__]
    if found:
        yield Finding("ok", f"entry point verl.plugins: {found[0].name} = {found[0].value}")
    else:
        yield Finding("NO", "entry point verl.plugins is missing: install the package, not its folder alone")
    policy = os.environ.get("VERL_USE_EXTERNAL_PLUGINS", "auto").strip()
    names = {one.strip() for one in policy.split(",")}
    is_loaded = policy.lower() == "auto" or bool(names & {one.name for one in found})
    by_module = ours.__name__ in os.environ.get("VERL_USE_EXTERNAL_MODULES", "").split(",")
    yield Finding(
        "ok" if is_loaded or by_module else "NO",
        f"VERL_USE_EXTERNAL_PLUGINS={policy}" + ("" if is_loaded else " keeps verl from loading it"),
    )
    core_algos, why = _imported("verl.trainer.ppo.core_algos")
    if core_algos is None:
        yield Finding("NO", f"policy losses and advantage estimator: {why}")
    else:
        missing = [name for name in ours.LOSSES if name not in core_algos.POLICY_LOSS_REGISTRY]
        yield Finding("NO" if missing else "ok", f"policy losses: {', '.join(missing or ours.LOSSES)}")
        is_there = ours.ESTIMATOR in core_algos.ADV_ESTIMATOR_REGISTRY
        yield Finding("ok" if is_there else "NO", f"advantage estimator: {ours.ESTIMATOR}")
    trainer_base, why = _imported("verl.trainer.ppo.v1.trainer_base")
    if trainer_base is None:
        yield Finding("NO", f"hook of PPOTrainer._compute_advantage (trainer V1): {why}")
    else:
        is_hooked = hasattr(trainer_base.PPOTrainer._compute_advantage, "_hunkwise")
        yield Finding("ok" if is_hooked else "NO", "hook of PPOTrainer._compute_advantage (trainer V1)")
        for name, kind in sorted(trainer_base.TRAINER_REGISTRY.items()):
            if not hasattr(kind._compute_advantage, "_hunkwise"):
                yield Finding("NO", f"trainer_mode={name}: {kind.__name__} has a _compute_advantage of its own")
    yield Finding("-", "not hooked: trainer.use_v1=false, and the trainers of verl.experimental")


def _imported(name: str) -> tuple[Any, str]:
    """A module, or why it could not be imported."""
    try:
        return importlib.import_module(name), ""
    except Exception as error:  # What a trainer's import raises is what is to be told.
        return None, f"{name} cannot be imported: {type(error).__name__}: {error}"
