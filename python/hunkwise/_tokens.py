"""Exact bytes of tokens, from a Hugging Face tokenizer."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

import numpy as np

from . import _hunkwise


class TokenBytes:
    """The bytes of every token of a tokenizer: text is made from sampled ids, never ids from text.

    `tokenizer`: a fast tokenizer of transformers, a `tokenizers.Tokenizer`, or the path of a tokenizer.json.
    Raises `RuntimeError` for a kind of vocabulary whose token bytes are not defined (WordPiece, for instance).
    """

    def __init__(self, tokenizer: Any) -> None:
        if isinstance(tokenizer, (str, os.PathLike)):
            self._raw = _hunkwise.RawTokenBytes.from_file(os.fspath(tokenizer))
            return
        backend = getattr(tokenizer, "backend_tokenizer", tokenizer)
        if not hasattr(backend, "to_str"):
            raise TypeError(
                f"{type(tokenizer).__name__} is not a fast tokenizer; load it with use_fast=True, or give the path of "
                "its tokenizer.json"
            )
        name = str(getattr(tokenizer, "name_or_path", "") or type(tokenizer).__name__)
        self._raw = _hunkwise.RawTokenBytes.from_json(backend.to_str(), name)

    def __len__(self) -> int:
        """Number of token ids."""
        return self._raw.n_tokens()

    def decode(
        self, ids: Iterable[int], *, shows_specials: bool = False, is_start: bool = False
    ) -> tuple[bytes, np.ndarray[Any, np.dtype[np.uint32]]]:
        """The bytes that the ids spell, and for each the byte at which it ends.

        Special tokens have no bytes unless `shows_specials`. `is_start`: the text begins here, so a decoder's rule for
        a leading space applies; after a prompt it does not.

        Raises `ValueError` for an id that the tokenizer lacks.
        """
        text, ends = self._raw.decode([int(i) for i in ids], shows_specials, is_start)
        return text, np.array(ends, np.uint32)

    def align(self, ids: Iterable[int], text: str | bytes) -> tuple[bytes, np.ndarray[Any, np.dtype[np.uint32]]]:
        """As `decode`, with special tokens and a leading space as the text has them.

        Raises `ValueError`, with the first byte that differs, where the ids do not spell the text.
        """
        given = text.encode() if isinstance(text, str) else bytes(text)
        exact, ends = self._raw.align([int(i) for i in ids], given)
        return exact, np.array(ends, np.uint32)
