"""Batches in the form of the authors' collector, made up: the same on every machine."""

from __future__ import annotations

import random
from typing import Any

LINES = [
    "def total(prices, tax):", "    if prices is None:", "        return 0", "    result = sum(prices)",
    "    result = max(prices) + tax", "    for price in prices:", "        result += price", "    return result",
    "    return result * (1 + tax)", "    raise ValueError('no prices: é')", "    print(result)", "    result -= 1",
]  # fmt: skip


def _edited(source: random.Random, lines: list[str]) -> list[str]:
    made = list(lines)
    for _ in range(source.randrange(5)):
        at = source.randrange(len(made) + 1)
        what = source.randrange(4)
        if what == 0 or at == len(made):
            made.insert(at, source.choice(LINES))
        elif what == 1:
            del made[at]
        elif what == 2:
            made[at] += f" + {source.randrange(100)}"
        else:
            made[at] = made[at].replace("result", source.choice(["value", "found", "out"]))
    return made


def _snippet(lines: list[str], first: int, tokens_per_char: float, **given: Any) -> dict[str, Any]:
    text = "\n".join(lines)
    start, end = first, first + len(text)
    return {
        "source": text, "lines": lines, "size": float(max(1, len(lines))), "char_start": start, "char_end": end,
        "token_start": int(start * tokens_per_char), "token_end": int(end * tokens_per_char) + 1, "changed": True,
        "path": "shop.py",
    } | given  # fmt: skip


def batch(seed: int, n_tasks: int = 2, n_rows: int = 10, n_lines: int = 12, n_tokens: int = 160) -> dict[str, Any]:
    """Arguments of `compute_didpo_outcome_advantage` as lists: each task has `n_rows` rows of two turns a rollout."""
    source = random.Random(seed)
    made: dict[str, Any] = {name: [] for name in ("rewards", "returns", "mask", "snippets", "index", "traj_index")}
    for task in range(n_tasks):
        base = [source.choice(LINES) for _ in range(n_lines)]
        for row in range(n_rows):
            snippets: list[dict[str, Any]] = []
            at = source.randrange(20)
            for edit_type in source.sample(["add", "del", "none"], source.randrange(3)):
                lines = _edited(source, base)
                if not lines:
                    continue
                root = _snippet(
                    lines, at, 0.3, level=0, origin="root", edit_type=edit_type, signature=f"root::{edit_type}",
                    changed=source.random() < 0.9,
                )  # fmt: skip
                snippets.append(root)
                for start in range(0, len(lines) - 2, 3):
                    piece = lines[start : start + 3]
                    level = source.randrange(2)
                    snippets.append(
                        _snippet(
                            piece,
                            at + len("\n".join(lines[:start])) + 1,
                            0.3,
                            level=level,
                            origin="fallback",
                            edit_type=edit_type,
                            signature=source.choice(["stmt::Return", "fn::total", "stmt::If"]),
                            size=float(source.randrange(1, 30)),
                        )  # fmt: skip
                    )
                at = root["char_end"] + source.randrange(10)
            length = source.randrange(n_tokens // 2, n_tokens + 1)
            score = float(source.randrange(3))
            made["rewards"].append([0.0] * (length - 1) + [score] + [0.0] * (n_tokens - length))
            made["returns"].append(score * 0.95 ** (row % 2))
            made["mask"].append([1] * length + [0] * (n_tokens - length))
            made["snippets"].append(snippets or None)
            made["index"].append(f"task-{task}")
            made["traj_index"].append(f"{task}-{row // 2}")
    return made


CASES: list[tuple[str, int, dict[str, Any]]] = [
    ("full", 1, {"overhead_mode": "full", "max_pairs_per_uid": -1}),
    ("full, std", 2, {"overhead_mode": "full", "max_pairs_per_uid": -1, "mode": "mean_std_norm"}),
    ("full, 64 pairs", 3, {"overhead_mode": "full", "max_pairs_per_uid": 10}),
    ("no fallback", 4, {"overhead_mode": "full", "max_pairs_per_uid": -1, "use_structural_fallback": False}),
    ("lightweight", 5, {"overhead_mode": "lightweight"}),
    ("exact_only", 6, {"overhead_mode": "exact_only"}),
    ("functions first", 7, {"overhead_mode": "full", "max_pairs_per_uid": -1, "level_select": "bpe_greedy"}),
    (
        "other forms", 8,
        {
            "overhead_mode": "full", "max_pairs_per_uid": -1, "phi_form": "log", "psi_form": "linear", "gs_min": 0.05,
            "min_block_lines": 2, "max_anchors_per_uid": 3, "sim_thresh": 0.6, "snippet_advantage_w": 1.2,
        },
    ),
    ("equal texts alone", 9, {"overhead_mode": "full", "max_pairs_per_uid": -1, "sim_thresh": 1.0}),
]  # fmt: skip
"""Name, seed, parameters."""
