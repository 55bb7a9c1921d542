"""The authors' released code, number for number: `compute_didpo_outcome_advantage` with their signature.

    import hunkwise.verl_code

    hunkwise.verl_code.install()        # in the process of the trainer, before training begins

Written against verl-code 74d09ed (2026-08-07), `didpo/core_didpo.py`. Every mode of theirs gives their advantages, bit
for bit: theirs come from CPython's `difflib`, ours from the same matching in Rust. Two defaults differ: `overhead_mode`
is `full` and `max_pairs_per_uid` is -1 (all pairs), because what made the authors sample is no longer slow.

`opcodes` and `ratio` are `difflib.SequenceMatcher`'s, for any sequences of hashable things.
"""

from __future__ import annotations

import importlib
import time
from collections.abc import Hashable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from . import _hunkwise

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["TAGS", "Opcode", "compute_didpo_outcome_advantage", "install", "opcodes", "opcodes_of_pairs", "ratio"]

Snippet = dict[str, Any]

TAGS = ("equal", "replace", "delete", "insert")
"""Tags by their number in `opcodes_of_pairs`."""

# Kinds of units: of an anchor, of a function, of a smaller piece.
_ALIGNED, _FUNCTION, _HUNK = 0, 1, 2
_LEVELS = 2


class Opcode(NamedTuple):
    """How a piece of `a` becomes a piece of `b`."""

    tag: str
    """`equal`, `replace`, `delete` or `insert`."""
    i1: int
    i2: int
    j1: int
    j2: int


def opcodes(a: Sequence[Hashable], b: Sequence[Hashable], autojunk: bool = True) -> list[Opcode]:
    """`difflib.SequenceMatcher(None, a, b, autojunk).get_opcodes()`.

    Raises `TypeError` for an element that is not hashable.
    """
    return [Opcode(*one) for one in _hunkwise.opcodes(*_numbered(a, b), autojunk)]


def opcodes_of_pairs(
    sequences: Sequence[Sequence[Hashable]], autojunk: bool = True
) -> tuple[np.ndarray[Any, np.dtype[np.int64]], np.ndarray[Any, np.dtype[np.uint32]]]:
    """The opcodes of each pair (i, j) of sequences with i < j, in the order (0, 1), (0, 2), ..., (1, 2), ...

    Returns offsets, int64 `[pairs + 1]`, and opcodes, uint32 `[opcodes, 5]`: number of the tag in `TAGS`, i1, i2, j1,
    j2. Pair k has the rows `offsets[k]` to `offsets[k + 1]`.

    Raises `TypeError` for an element that is not hashable.
    """
    numbers: dict[Hashable, int] = {}
    flat = [numbers.setdefault(one, len(numbers)) for sequence in sequences for one in sequence]
    lengths = np.array([len(sequence) for sequence in sequences], np.int64)
    ends = np.cumsum(lengths, dtype=np.int64)
    offsets, found = _hunkwise.opcodes_of_pairs(np.array(flat, np.uint32).tobytes(), ends.tolist(), autojunk)
    return np.frombuffer(offsets, np.int64), np.frombuffer(found, np.uint32).reshape(-1, 5)


def ratio(a: Sequence[Hashable], b: Sequence[Hashable], autojunk: bool = True) -> float:
    """`difflib.SequenceMatcher(None, a, b, autojunk).ratio()`.

    Raises `TypeError` for an element that is not hashable.
    """
    return _hunkwise.ratio(*_numbered(a, b), autojunk)


def _numbered(a: Sequence[Hashable], b: Sequence[Hashable]) -> tuple[list[int], list[int]]:
    if isinstance(a, str) and isinstance(b, str):
        return list(map(ord, a)), list(map(ord, b))
    numbers: dict[Hashable, int] = {}
    first = [numbers.setdefault(one, len(numbers)) for one in a]
    return first, [numbers.setdefault(one, len(numbers)) for one in b]


def install() -> None:
    """Puts `compute_didpo_outcome_advantage` in the place of the authors' in this process.

    Raises `ModuleNotFoundError` where their package `didpo` is not on the path.
    """
    theirs = importlib.import_module("didpo.core_didpo")
    vars(theirs)["compute_didpo_outcome_advantage"] = compute_didpo_outcome_advantage


def compute_didpo_outcome_advantage(
    token_level_rewards: Tensor,
    step_rewards: Tensor,
    response_mask: Tensor,
    snippets: Sequence[list[Snippet] | None] | np.ndarray[Any, Any],
    index: Sequence[Hashable] | np.ndarray[Any, Any],
    traj_index: Sequence[Hashable] | np.ndarray[Any, Any],
    epsilon: float = 1e-6,
    snippet_advantage_w: float = 1.0,
    mode: str = "mean_norm",
    sim_thresh: float = 0.8,
    phi_s0: float = 8.0,
    psi_count_ref: float = 8.0,
    phi_form: str = "saturating",
    psi_form: str = "saturating",
    level_select: str = "argmax_gs",
    gs_min: float = 0.0,
    max_span_lines: int = 32,
    max_anchors_per_uid: int = 64,
    min_block_lines: int = 1,
    max_pairs_per_uid: int = -1,
    use_alignment: bool = True,
    use_structural_fallback: bool = True,
    overhead_mode: str = "full",
    instance_ids: Sequence[Any] | np.ndarray[Any, Any] | None = None,
    return_diagnostics: bool = True,
    *,
    threads: int = 0,
) -> tuple[Tensor, Tensor, dict[str, Any]] | tuple[Tensor, Tensor]:
    """Advantages `[rows, tokens]` with the authors' parameters and numbers.

    `token_level_rewards` and `response_mask`: `[rows, tokens]`; the sum of a row's rewards is its score, and the result
    has their dtype and device. `step_rewards`: `[rows]`, the return-to-go. `snippets`: for each row the dicts that
    their collector makes (`level`, `signature`, `source`, `lines`, `size`, `char_start`, `char_end`, `token_start`,
    `token_end`, `changed`, `edit_type`, `origin`), or `None`. `index`: the task of each row. `traj_index` and
    `max_span_lines` change nothing, as in their code. `threads`: 0 is `HUNKWISE_NUM_THREADS`, or one for each core.

    Returns (advantages, the same tensor as returns, diagnostics), or the first two. The diagnostics are theirs but for
    `group_id`, which counts up instead of being random, and `align_time_ms`. Nothing is printed.

    Raises `ValueError` for a mode, form or length that does not fit. Source: verl-code 74d09ed, `didpo/core_didpo.py`.
    """
    import torch

    if mode not in ("mean_norm", "mean_std_norm"):
        raise ValueError(f"Unknown mode: {mode}")
    if token_level_rewards.dim() != 2:
        raise ValueError(f"token_level_rewards have the shape {list(token_level_rewards.shape)}, not [rows, tokens]")
    n_rows, n_tokens = token_level_rewards.shape
    for name, values in {
        "step_rewards": step_rewards, "snippets": snippets, "index": index, "traj_index": traj_index,
    }.items():  # fmt: skip
        if len(values) != n_rows:
            raise ValueError(f"{name} has {len(values)} entries, token_level_rewards {n_rows} rows")
    removes_std = mode == "mean_norm"
    how = _Overhead.of(overhead_mode, max_pairs_per_uid, use_structural_fallback)
    settings = (
        float(sim_thresh), float(phi_s0), float(psi_count_ref), phi_form, psi_form,
        int(max_anchors_per_uid or 0), int(min_block_lines), how.max_pairs,
    )  # fmt: skip
    episode = _episode(torch, token_level_rewards, response_mask, index, epsilon, removes_std)
    of_rows: list[list[Snippet]] = [[] if one is None else list(one) for one in snippets]
    returns = [float(one) for one in step_rewards.tolist()]
    groups = _Groups(gs_min, level_select == "bpe_greedy", epsilon, removes_std, returns)
    began = time.perf_counter()
    if use_alignment:
        _align(groups, of_rows, index, settings, threads)
    aligned_ms = (time.perf_counter() - began) * 1000.0
    n_aligned = len(groups.made)
    if how.uses_fallback or (how.is_fallback_for_none and n_aligned == 0):
        _fall_back(groups, of_rows, index, settings, float(sim_thresh))
    filled = np.zeros((n_rows, n_tokens))
    n_filled = _hunkwise.fill(groups.units, n_tokens, (filled.ctypes.data, filled.size, "float64"))
    n_filled += [0] * (3 - len(n_filled))
    added = torch.from_numpy(filled).to(dtype=episode.dtype, device=token_level_rewards.device) * response_mask
    advantages = episode + snippet_advantage_w * added
    if not return_diagnostics:
        return advantages, advantages
    diagnostics = groups.diagnostics(n_aligned, n_filled)
    diagnostics["align_time_ms"] = aligned_ms
    all_snippets = [one for row in of_rows for one in row]
    n_changed = sum(1 for one in all_snippets if one.get("changed", True))
    diagnostics["changed_snippet_ratio"] = n_changed / max(1, len(all_snippets))
    diagnostics["snippet_token_frac"] = sum(n_filled) / max(1.0, float(response_mask.sum().item()))
    diagnostics["per_instance"] = groups.by_instance(instance_ids, index)
    return advantages, advantages, diagnostics


class _Overhead(NamedTuple):
    """What the names of `overhead_mode` stand for."""

    max_pairs: int
    uses_fallback: bool
    is_fallback_for_none: bool

    @classmethod
    def of(cls, name: str, max_pairs: int, uses_fallback: bool | None) -> _Overhead:
        name = (name or "lightweight").lower()
        if name in ("exact_only", "exact", "hash_only"):
            return cls(0, False, False)
        if name in ("lightweight", "light", "roots_only"):
            return cls(8, False, True)
        return cls(int(max_pairs), True if uses_fallback is None else bool(uses_fallback), False)


def _episode(
    torch: Any,
    rewards: Tensor,
    mask: Tensor,
    index: Iterable[Hashable],
    epsilon: float,
    removes_std: bool,
) -> Tensor:
    """Scores over the rows of each task, on every token: by torch, whose sums theirs are."""
    with torch.no_grad():
        scores = rewards.sum(dim=-1)
        of_task: dict[Hashable, list[int]] = {}
        for row, task in enumerate(index):
            of_task.setdefault(task, []).append(row)
        mean, std = torch.zeros_like(scores), torch.ones_like(scores)
        on_host = scores.cpu()
        for rows in of_task.values():
            if len(rows) > 1:
                of_rows = on_host[rows]
                mean[rows] = of_rows.mean().to(mean.device)
                std[rows] = of_rows.unsqueeze(0).std().to(std.device)
        scores = scores - mean
        if not removes_std:
            scores = scores / (std + epsilon)
        tiled: Tensor = scores.unsqueeze(-1).tile([1, rewards.shape[-1]]) * mask
        return tiled


class _Group(NamedTuple):
    """A group of units with what the diagnostics say of it."""

    size: int
    origin: str
    task: Hashable
    preview: str
    gs: float
    mean_size: float


class _Groups:
    """Groups in the order in which they are made, and the units that tokens choose from."""

    def __init__(
        self, gs_min: float, prefers_functions: bool, epsilon: float, removes_std: bool, returns: list[float]
    ) -> None:
        self.made: list[_Group] = []
        self.units: list[tuple[int, int, int, float, float, int]] = []
        self.gs_min = gs_min
        self.prefers_functions = prefers_functions
        self.epsilon = epsilon
        self.removes_std = removes_std
        self.returns = returns

    def advantages(self, rows: Iterable[int]) -> list[float]:
        return _hunkwise.baselined([self.returns[row] for row in rows], self.epsilon, self.removes_std)

    def unit(self, row: int, start: int, end: int, gs: float, advantage: float, kind: int) -> None:
        if self.prefers_functions and kind != _HUNK and gs > self.gs_min:
            gs += 1.0
        if gs > self.gs_min:
            self.units.append((row, start, end, gs, advantage, kind))

    def diagnostics(self, n_aligned: int, n_filled: list[int]) -> dict[str, Any]:
        sizes = [group.size for group in self.made]
        histogram: dict[str, int] = {}
        for size in sizes:
            bucket = str(size) if size <= 8 else ("9-16" if size <= 16 else "17+")
            histogram[bucket] = histogram.get(bucket, 0) + 1
        self.by_task: dict[Hashable, list[dict[str, Any]]] = {}
        for number, group in enumerate(self.made):
            self.by_task.setdefault(group.task, []).append({
                "group_id": f"{number:08x}", "size": group.size, "gs": group.gs, "origin": group.origin,
                "preview": group.preview, "mean_size": group.mean_size,
            })  # fmt: skip
        n = max(1, len(sizes))
        return {
            **_summary(sizes),
            "n_anchors_selected": n_aligned,
            "alignment_group_frac": n_aligned / n,
            "fallback_group_frac": (len(sizes) - n_aligned) / n,
            "group_size_hist": histogram,
            "per_uid": {str(task): _listed(groups) for task, groups in self.by_task.items()},
            "align_token_count": n_filled[_ALIGNED],
            "fallback_token_count": n_filled[_FUNCTION] + n_filled[_HUNK],
            "selected_level_token_counts": {"0": n_filled[_ALIGNED] + n_filled[_FUNCTION], "1": n_filled[_HUNK]},
        }

    def by_instance(self, instances: Any, index: Iterable[Hashable]) -> dict[str, Any]:
        """The groups by a task's lasting name, where rows have one."""
        tasks = list(index)
        if instances is None or len(instances) != len(tasks):
            return {}
        names = [str(one) for one in instances]
        name_of: dict[str, str] = {}
        for task, name in zip(tasks, names, strict=True):
            name_of.setdefault(str(task), name)
        found = {name: _listed([]) for name in dict.fromkeys(names) if name}
        groups: dict[str, list[dict[str, Any]]] = {}
        for task, of_task in self.by_task.items():
            groups.setdefault(name_of.get(str(task), str(task)), []).extend(of_task)
        return found | {name: _listed(of_name) for name, of_name in groups.items()}


def _summary(sizes: list[int]) -> dict[str, Any]:
    if not sizes:
        return {"n_groups": 0, "mean_group_size": 0.0, "median_group_size": 0.0, "singleton_rate": 0.0}
    array = np.asarray(sizes, np.float64)
    return {
        "n_groups": len(sizes),
        "mean_group_size": float(array.mean()),
        "median_group_size": float(np.median(array)),
        "singleton_rate": float(np.mean(array <= 1.0)),
    }


def _listed(groups: list[dict[str, Any]]) -> dict[str, Any]:
    ordered = sorted(groups, key=lambda group: (-group["size"], -group["gs"]))
    return {**_summary([group["size"] for group in groups]), "groups": ordered}


def _is_root(snippet: Snippet) -> bool:
    """A root diff; dicts of older collectors say it in other ways."""
    origin = snippet.get("origin", "fallback")
    if origin == "root":
        return True
    if origin == "fallback" or snippet.get("level") != 0:
        return False
    return "root::" in str(snippet.get("signature", "")) or bool(snippet.get("lines"))


def _align(
    groups: _Groups,
    of_rows: list[list[Snippet]],
    index: Iterable[Hashable],
    settings: tuple[float, float, float, str, str, int, int, int],
    threads: int,
) -> None:
    """Groups of lines that recur, by difflib's opcodes."""
    of_task: dict[Hashable, list[tuple[int, Snippet]]] = {}
    for row, (task, snippets) in enumerate(zip(index, of_rows, strict=True)):
        roots = [(row, snippet) for snippet in snippets if _is_root(snippet)]
        if roots:
            of_task.setdefault(task, []).extend(roots)
    used = {task: [one for one in roots if one[1].get("changed", True)] for task, roots in of_task.items()}
    made = _hunkwise.opcode_anchors([[_root(*one) for one in roots] for roots in used.values()], settings, threads)
    for (task, roots), anchors in zip(used.items(), made, strict=True):
        for occurrences, gs, mean_size, preview in anchors:
            if gs <= groups.gs_min:
                continue
            rows = [roots[root][0] for root, *_ in occurrences]
            groups.made.append(_Group(len(rows), "alignment", task, preview, gs, mean_size))
            advantages = groups.advantages(rows)
            for row, (_, _, _, _, tokens), advantage in zip(rows, occurrences, advantages, strict=True):
                groups.unit(row, *tokens, gs, advantage, _ALIGNED)


def _root(row: int, snippet: Snippet) -> tuple[int, str, list[str], str, tuple[int, int], tuple[int, int]]:
    source = str(snippet.get("source", ""))
    lines = list(snippet.get("lines") or [line for line in source.splitlines() if line.strip()])
    chars = (int(snippet.get("char_start", 0)), int(snippet.get("char_end", 0)))
    tokens = (int(snippet.get("token_start", 0)), int(snippet.get("token_end", 0)))
    return row, str(snippet.get("edit_type", "none")), lines, source, chars, tokens


def _fall_back(
    groups: _Groups,
    of_rows: list[list[Snippet]],
    index: Iterable[Hashable],
    settings: tuple[float, float, float, str, str, int, int, int],
    threshold: float,
) -> None:
    """Groups of functions and statements with equal signatures and similar sources."""
    tasks = list(index)
    placed: dict[tuple[int, int], tuple[float, float, int]] = {}
    for level in range(_LEVELS):
        of_signature: dict[tuple[Hashable, str], list[tuple[int, int, str]]] = {}
        for row, snippets in enumerate(of_rows):
            for at, snippet in enumerate(snippets):
                is_used = snippet.get("level", -1) == level and snippet.get("changed", True)
                if is_used and snippet.get("origin") != "root":
                    key = (tasks[row], str(snippet.get("signature", "")))
                    of_signature.setdefault(key, []).append((row, at, snippet.get("source", "")))
        for (task, _), items in of_signature.items():
            clusters: dict[int, list[tuple[int, int]]] = {}
            numbers = _hunkwise.refine([source for _, _, source in items], threshold)
            for (row, at, _), number in zip(items, numbers, strict=True):
                clusters.setdefault(number, []).append((row, at))
            for members in clusters.values():
                if len(members) == 1:
                    continue
                first = of_rows[members[0][0]][members[0][1]]
                size = float(first.get("size", 1.0))
                gs = _hunkwise.groupability(size, len(members), settings)
                preview = str(first.get("source", ""))[:120].replace("\n", "\\n")
                groups.made.append(_Group(len(members), "fallback", task, preview, gs, size))
                advantages = groups.advantages(row for row, _ in members)
                for member, advantage in zip(members, advantages, strict=True):
                    placed[member] = (gs, advantage, _FUNCTION if level == 0 else _HUNK)
    # Of units that are equal the first is chosen, and in a row their order is that of its snippets.
    for row, snippets in enumerate(of_rows):
        for at, snippet in enumerate(snippets):
            if (row, at) in placed:
                gs, advantage, kind = placed[row, at]
                start, end = int(snippet.get("token_start", -1)), int(snippet.get("token_end", -1))
                groups.unit(row, start, end, gs, advantage, kind)
