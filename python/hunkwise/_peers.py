"""What the adapters of trainers share: rows of token ids with task and rollout, and what is added to each token."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from . import _credit
from ._config import Config
from ._tokens import TokenBytes

Row = dict[str, Any]
Added = list[tuple[int, int, float]]
"""Runs of tokens, from and to (not included), with what is added to their advantage."""


def token_bytes(tokenizer: Any) -> TokenBytes:
    """The bytes of a tokenizer's tokens; what is one already is given back."""
    return tokenizer if isinstance(tokenizer, TokenBytes) else TokenBytes(tokenizer)


def row(
    tokenizer: TokenBytes,
    task: str | int,
    trajectory: str | int,
    turn: int,
    ids: Sequence[int],
    mask: Sequence[int],
    outcome: float | None,
) -> Row:
    """A rollout row of `hunkwise.credit`; an outcome that is NaN is none."""
    text, ends = tokenizer.decode(ids)
    return {
        "task": task, "trajectory": trajectory, "turn": turn, "text": text, "token_ends": ends,
        "mask": [int(bool(one)) for one in mask],
        "outcome": None if outcome is None or outcome != outcome else float(outcome),
    }  # fmt: skip


def credit_of(rows: Sequence[Row | None], config: Config) -> tuple[list[Added], _credit.Credit | None]:
    """What is added to the tokens of each row beside A^E, and the credit; `None` rows take no part and get nothing."""
    added: list[Added] = [[] for _ in rows]
    used = [i for i, one in enumerate(rows) if one is not None and len(one["mask"])]
    if not used:
        return added, None
    credit = _credit.credit([one for i in used if (one := rows[i]) is not None], config)
    for i, found in zip(used, credit.rows, strict=True):
        if found is not None and found.token_spans is not None:
            added[i] = [(span.start, span.end, span.advantage) for span in found.token_spans]
    return added, credit
