"""From rollouts to the advantage of every token."""

from __future__ import annotations

import base64
import contextlib
import dataclasses
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from . import _hunkwise
from ._config import Config, as_config

Path = str | os.PathLike[str]


@dataclass(frozen=True)
class Span:
    """A run of bytes or tokens whose advantage differs from that of its rollout."""

    start: int
    end: int
    """Not included."""
    advantage: float
    """Added to the row's `episode`."""
    anchor: int | None
    """Number of the group in its task; `None` for the step advantage alone."""


@dataclass(frozen=True)
class CreditRow:
    """Credit of one row: a sequence of a rollout, with one turn of the model or several."""

    task: str
    trajectory: str
    turn: int
    score: float | None
    """Score of the rollout; `None` when it has none."""
    episode: float
    """A^E, the advantage of every trained token."""
    byte_spans: tuple[Span, ...]
    """Sorted, disjoint; bytes of the row's UTF-8 text."""
    token_spans: tuple[Span, ...] | None
    """The same in tokens, trained ones only; `None` where tokens are not known."""
    notes: tuple[dict[str, Any], ...] = ()
    """Edits that are odd: `kind`, `skipped`, `start`, `end`, `what`."""


@dataclass(frozen=True)
class Member:
    """One occurrence of a group's code."""

    trajectory: str
    turn: int
    bytes: tuple[tuple[int, int], ...]
    lines: int
    similarity: float
    turn_return: float | None
    advantage: float
    """A^D, before lambda."""
    text: str


@dataclass(frozen=True)
class Group:
    """Code that recurs across rollouts of a task, and the turns in which it does."""

    task: str
    anchor: int
    edit_type: str
    path: str
    groupability: float
    mean_lines: float
    members: tuple[Member, ...]


class Credit:
    """The credit of a batch, row by row as the rollouts were given."""

    def __init__(self, raw: _hunkwise.RawCredit, config: Config, n_rows: int | None) -> None:
        self._raw = raw
        self.config = config
        """The parameters that it was computed with."""
        places = raw.places()
        # Rows that were given as dicts are lines of one file; rows of files stay in the order of the output.
        self._order = [i if n_rows is None else line - 1 for i, (_, line, _) in enumerate(places)]
        self._n_tokens = [n_tokens for _, _, n_tokens in places]
        self._is_of_files = n_rows is None
        self._n_rows = len(places) if n_rows is None else n_rows

    def __len__(self) -> int:
        """Number of rows given; of rows that could be used, where they came from files."""
        return self._n_rows

    def __repr__(self) -> str:
        return f"<hunkwise.Credit of {self._n_rows} rows, {len(self.groups)} groups>"

    @cached_property
    def advantages(self) -> list[np.ndarray[Any, np.dtype[np.float32]] | None]:
        """For each row one float32 for each token: A where the mask is 1, 0 elsewhere.

        `None` for a row that could not be used or whose tokens are not known. All are views of one array.
        """
        offsets = np.cumsum([0, *(max(n, 0) for n in self._n_tokens)])
        flat = np.empty(int(offsets[-1]), dtype=np.float32)
        self._raw.dense((flat.ctypes.data, flat.size, "float32"))
        rows: list[np.ndarray[Any, np.dtype[np.float32]] | None] = [None] * self._n_rows
        for at, (row, n_tokens) in enumerate(zip(self._order, self._n_tokens, strict=True)):
            if n_tokens >= 0:
                rows[row] = flat[offsets[at] : offsets[at + 1]]
        return rows

    @cached_property
    def rows(self) -> list[CreditRow | None]:
        """For each row its spans; `None` for a row that could not be used (see `flagged`)."""
        rows: list[CreditRow | None] = [None] * self._n_rows
        for row, line in zip(self._order, self._raw.rows_jsonl(False, False).splitlines(), strict=True):
            values = json.loads(line)
            tokens = values.get("token_spans")
            values["byte_spans"] = tuple(Span(**span) for span in values["byte_spans"])
            values["token_spans"] = None if tokens is None else tuple(Span(**span) for span in tokens)
            values["notes"] = tuple(values.get("notes", ()))
            rows[row] = CreditRow(**values)
        return rows

    @cached_property
    def groups(self) -> list[Group]:
        """The groups of the diff advantage, by task and anchor."""
        groups = []
        for line in self._raw.groups_jsonl().splitlines():
            values = json.loads(line)
            members = []
            for member in values.pop("members"):
                member["turn_return"] = member.pop("return")
                member["bytes"] = tuple(map(tuple, member["bytes"]))
                members.append(Member(**member))
            groups.append(Group(members=tuple(members), **values))
        return groups

    @property
    def flagged(self) -> list[tuple[int | str, str]]:
        """What was not taken, or only in part: row from 0 (a place, where rows came from files), and the reason."""
        flagged = self._raw.flagged()
        return [(place if self._is_of_files else line - 1, reason) for place, line, reason in flagged]

    @property
    def notes(self) -> list[str]:
        """What the reader assumed or ignored."""
        return self._raw.notes()

    @cached_property
    def diagnostics(self) -> dict[str, Any]:
        """Counts, distributions and times; docs/output.md describes each."""
        made: dict[str, Any] = json.loads(self._raw.diagnostics_json())["diagnostics"]
        return made

    def to_metrics(self) -> dict[str, float]:
        """The same as flat names `hunkwise/…`, every value a number, for a logger."""
        return dict(self._raw.metrics())

    def write(self, path: Path, *, dense: bool = True, source: bool = False) -> None:
        """Writes the rows as JSON lines: the file that `hunkwise credit -o` writes, byte for byte."""
        _write_whole(path, self._raw.rows_jsonl(dense, source))

    def write_groups(self, path: Path) -> None:
        """Writes the groups as JSON lines: the file that `--groups` writes, byte for byte."""
        _write_whole(path, self._raw.groups_jsonl())

    def write_diagnostics(self, path: Path) -> None:
        """Writes diagnostics, metrics, parameters and flagged rows as JSON."""
        _write_whole(path, self._raw.diagnostics_json())


def credit(
    rollouts: Path | Sequence[Path] | Iterable[Mapping[str, Any]],
    config: Config | Mapping[str, Any] | Path | None = None,
    *,
    format: str | None = None,
    tokenizer: Path | None = None,
    strict: bool = False,
    threads: int = 0,
) -> Credit:
    """Advantages for every trained token of a batch of rollouts.

    `rollouts`: dicts with the fields of docs/formats.md (`task`, `text` and `outcome` at least; `token_ends` or
    `token_ids`, `mask`, `turns`, `trajectory`, `turn`, `reward`), where `text` may be bytes and lists may be arrays;
    or the path of a dump, or several. All rollouts of a task must be in one call: they are compared with each other.

    `config`: a `Config`, nested mappings, or the path of a TOML file; the default is DiDPO.
    `format`: of the dumps, when it should not be told from their content.
    `tokenizer`: a Hugging Face tokenizer.json, for rows with token ids.
    `strict`: raise for the first row that cannot be used, instead of flagging it.
    `threads`: 0 is `HUNKWISE_NUM_THREADS`, or one for each core. The result does not depend on it.

    Raises `ValueError` for input and parameters, `OSError` for files, `MemoryError` where `memory_limit` is passed.
    The interpreter's lock is released.
    """
    config = as_config(config)
    tokenizer = None if tokenizer is None else os.fspath(tokenizer)
    given: list[Any] = [rollouts] if isinstance(rollouts, (str, os.PathLike)) else list(rollouts)
    if not given:
        raise ValueError("no rollouts were given")
    if all(isinstance(one, (str, os.PathLike)) for one in given):
        paths = [os.fspath(one) for one in given]
        raw = _hunkwise.credit_files(paths, config.to_json(), format, tokenizer, strict, threads)
        return Credit(raw, config, None)
    if format is not None:
        raise ValueError("format is for dumps; rollouts given as dicts have the fields of docs/formats.md")
    lines = "".join(_line(row, i) for i, row in enumerate(given)).encode("utf-8", "surrogatepass")
    raw = _hunkwise.credit_rows(lines, config.to_json(), tokenizer, strict, threads)
    return Credit(raw, config, len(given))


def _line(row: Any, i: int) -> str:
    if not isinstance(row, Mapping):
        raise TypeError(f"rollouts[{i}] is {type(row).__name__}; rollouts are dicts, or paths of dumps")
    values = dict(row)
    if isinstance(values.get("text"), (bytes, bytearray, memoryview)):
        values["text_base64"] = base64.b64encode(values.pop("text")).decode()
    try:
        return json.dumps(values, default=_as_json) + "\n"
    except (TypeError, ValueError) as error:
        raise TypeError(f"rollouts[{i}]: {error}") from None


def _as_json(value: Any) -> Any:
    """Arrays as lists, and their numbers as Python's."""
    if hasattr(value, "tolist"):
        return value.tolist()
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return dataclasses.asdict(value)
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, Iterable):
        return list(value)
    raise TypeError(f"a {type(value).__name__} is not a value of a rollout")


def _write_whole(path: Path, content: bytes) -> None:
    """Beside the file, then renamed: it appears whole or not at all."""
    path = os.fspath(path)
    temporary = f"{path}.{os.getpid()}.part"
    try:
        with open(temporary, "wb") as file:
            file.write(content)
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.remove(temporary)
        raise
