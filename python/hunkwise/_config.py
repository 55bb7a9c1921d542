"""Parameters of the credit, as dataclasses. docs/method.md says what each does."""

from __future__ import annotations

import dataclasses
import importlib
import json
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal


@dataclass(frozen=True)
class EditConfig:
    """How edits are found in a response."""

    fences: Literal["auto", "always", "never"] = "auto"
    """When a fenced code block is an edit."""
    keep_context: bool = False
    """Keep lines that search and replace text share in both root diffs."""
    diff_gate: bool = True
    """Give no credit to a repeated root diff."""


@dataclass(frozen=True)
class SimilarityConfig:
    """When two windows of code match."""

    eta: float = 0.8
    """Least similarity of a match, in (0, 1]."""
    embedding_weight: float = 0.0
    """Weight of the embedding part of the similarity, from 0 to 1."""
    embedding_dim: int = 256
    """Dimension of the built-in line vectors."""
    memory_limit: int = 4 << 30
    """Most bytes that the similarity of a task may hold."""


@dataclass(frozen=True)
class AnchorConfig:
    """How anchors are selected."""

    groupability: Literal["exponential", "additive", "log", "linear"] = "exponential"
    """Form of the groupability score."""
    s0: float = 8.0
    """Scale of the mean size, in lines."""
    g0: float = 8.0
    """Scale of the number of occurrences."""
    max_anchors: int = 64
    """Most anchors of a task."""
    unit: Literal["line", "occurrence"] = "line"
    """What the selection covers."""


@dataclass(frozen=True)
class AdvantageConfig:
    """How advantages are computed."""

    episode: Literal["grpo", "grpo_no_std", "dr_grpo", "rloo"] = "grpo"
    """Estimator of the episode advantage A^E."""
    over: Literal["trajectories", "turns"] = "trajectories"
    """What its statistics run over."""
    eps: float = 1e-6
    """Added to a standard deviation."""
    ddof: int = 1
    """Degrees of freedom taken off in a standard deviation: 0 or 1."""
    gamma: float = 0.95
    """Discount of the return-to-go."""
    returns: Literal["discounted", "outcome"] = "discounted"
    """What a turn's return is."""
    diff: Literal["within", "contrast"] = "within"
    """Form of the diff advantage A^D."""
    diff_std: bool = False
    """Divide A^D by the standard deviation of its group."""
    lam: float = field(default=1.2, metadata={"name": "lambda"})
    """Weight of A^D; `lambda` in files and dicts."""
    step: Literal["off", "exact", "similar"] = "off"
    """Step-level groups of equal observations (GiGPO)."""
    omega: float = 1.0
    """Weight of the step advantage."""
    step_eta: float = 0.9
    """Least similarity of two observations with `step="similar"`."""


@dataclass(frozen=True)
class Config:
    """Every parameter of the credit. The default is the paper's method (DiDPO) with the authors' constants.

    Numbers are checked when the credit is computed: `ValueError` with the name and the range.
    """

    grouping: Literal["windows", "whole", "exact", "opcodes", "none"] = "windows"
    """How groups are made: every window (DiDPO), whole root diffs, equal windows, difflib's opcodes
    (the authors' code), none (GRPO)."""
    max_lines: int = 32
    """Longest window, in lines."""
    edits: EditConfig = field(default_factory=EditConfig)
    similarity: SimilarityConfig = field(default_factory=SimilarityConfig)
    anchors: AnchorConfig = field(default_factory=AnchorConfig)
    advantage: AdvantageConfig = field(default_factory=AdvantageConfig)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Config:
        """From nested mappings (an OmegaConf `DictConfig` too); what is left out has its default.

        Raises `ValueError` for a name that is not known, with its place.
        """
        made: Config = _from_mapping(cls, _plain(values), "config")
        return made

    @classmethod
    def from_toml(cls, path: str | os.PathLike[str]) -> Config:
        """From the file that `hunkwise credit --config` takes. Needs Python 3.11, or the package `tomli`."""
        # tomllib is new in Python 3.11.
        toml = importlib.import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")
        with open(path, "rb") as file:
            return cls.from_dict(toml.load(file))

    def to_dict(self) -> dict[str, Any]:
        """Nested dicts with the names of the files."""
        return _to_mapping(self)

    def to_json(self) -> str:
        return json.dumps(self.to_dict())

    def replace(self, **changes: Any) -> Config:
        """A copy with some parameters changed; a dotted name reaches inside: `replace(**{"advantage.lam": 0.5})`."""
        values = self.to_dict()
        for name, value in changes.items():
            *groups, last = name.split(".")
            into = values
            for group in groups:
                into = into.setdefault(group, {})
                if not isinstance(into, dict):
                    raise ValueError(f"config.{name}: `{group}` is a value, not a group")
            into["lambda" if last == "lam" else last] = _plain(value)
        return Config.from_dict(values)


def as_config(config: Config | Mapping[str, Any] | str | os.PathLike[str] | None) -> Config:
    """A `Config`, nested mappings, the path of a TOML file, or `None` for the default."""
    if config is None:
        return Config()
    if isinstance(config, Config):
        return config
    if isinstance(config, (str, os.PathLike)):
        return Config.from_toml(config)
    return Config.from_dict(config)


def _plain(value: Any) -> Any:
    """Mappings as dicts and dataclasses as mappings, whatever library made them."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return _to_mapping(value)
    if hasattr(value, "items"):
        return {name: _plain(inner) for name, inner in value.items()}
    return value


def _name(one: dataclasses.Field[Any]) -> str:
    return str(one.metadata.get("name", one.name))


def _to_mapping(value: Any) -> dict[str, Any]:
    made = {}
    for one in dataclasses.fields(value):
        inner = getattr(value, one.name)
        made[_name(one)] = _to_mapping(inner) if dataclasses.is_dataclass(inner) else inner
    return made


def _from_mapping(kind: Any, values: Any, place: str) -> Any:
    if not isinstance(values, dict):
        raise ValueError(f"{place} is {type(values).__name__}, not a mapping")
    known = {_name(one): one for one in dataclasses.fields(kind)}
    known |= {one.name: one for one in dataclasses.fields(kind)}
    given = {}
    for name, value in values.items():
        one = known.get(name)
        if one is None:
            raise ValueError(f"{place}.{name} is not known; known are {', '.join(sorted(known))}")
        if one.name in given:
            raise ValueError(f"{place}.{name} is given twice")
        default = one.default_factory
        if default is not dataclasses.MISSING:
            value = _from_mapping(default, value, f"{place}.{name}")
        given[one.name] = value
    return kind(**given)
