"""The native half; `hunkwise` is what to use."""

from typing import TypeAlias

__version__: str
METRICS: list[str]

_Array: TypeAlias = tuple[int, int, str]
_Arrays: TypeAlias = dict[str, _Array]
_Result: TypeAlias = tuple[float, float, list[float], dict[str, float]]

_Span: TypeAlias = tuple[int, int]
_Root: TypeAlias = tuple[int, str, list[str], str, _Span, _Span]
_OpcodeSettings: TypeAlias = tuple[float, float, float, str, str, int, int, int]
_Occurrence: TypeAlias = tuple[int, int, int, _Span, _Span]
_Anchor: TypeAlias = tuple[list[_Occurrence], float, float, str]
_Unit: TypeAlias = tuple[int, int, int, float, float, int]

class RawCredit:
    def places(self) -> list[tuple[str, int, int]]: ...
    def dense(self, to: _Array) -> None: ...
    def rows_jsonl(self, dense: bool, source: bool) -> bytes: ...
    def groups_jsonl(self) -> bytes: ...
    def diagnostics_json(self) -> bytes: ...
    def metrics(self) -> list[tuple[str, float]]: ...
    def flagged(self) -> list[tuple[str, int, str]]: ...
    def notes(self) -> list[str]: ...

class RawTokenBytes:
    @staticmethod
    def from_file(path: str) -> RawTokenBytes: ...
    @staticmethod
    def from_json(json: str, name: str) -> RawTokenBytes: ...
    def n_tokens(self) -> int: ...
    def decode(self, ids: list[int], shows_specials: bool, is_start: bool) -> tuple[bytes, list[int]]: ...
    def align(self, ids: list[int], text: bytes) -> tuple[bytes, list[int]]: ...

def credit_rows(lines: bytes, config_json: str, tokenizer: str | None, strict: bool, n_threads: int) -> RawCredit: ...
def credit_files(
    files: list[str],
    config_json: str,
    format: str | None,
    tokenizer: str | None,
    strict: bool,
    n_threads: int,
) -> RawCredit: ...
def default_config() -> str: ...
def loss_config(json: str) -> str: ...
def policy_loss(
    arrays: _Arrays,
    shape: tuple[int, int],
    config_json: str,
    denominator: float | None,
    upstream: float,
    outputs: _Arrays,
    n_threads: int,
) -> _Result: ...
def reference_policy_loss(
    arrays: _Arrays,
    shape: tuple[int, int],
    config_json: str,
    denominator: float | None,
    outputs: _Arrays,
) -> _Result: ...
def reference_loss_at(
    arrays: _Arrays,
    shape: tuple[int, int],
    config_json: str,
    denominator: float | None,
    log_prob: list[float],
    stop: list[float],
) -> float: ...
def token_logprob(
    arrays: _Arrays,
    n_columns: int,
    n_vocab: int,
    temperature: float,
    outputs: _Arrays,
    n_threads: int,
) -> None: ...
def logits_loss(
    arrays: _Arrays,
    shape: tuple[int, int],
    n_columns: int,
    n_vocab: int,
    temperature: float,
    config_json: str,
    denominator: float | None,
    upstream: float,
    in_place: bool,
    outputs: _Arrays,
    n_threads: int,
) -> _Result: ...
def linear_loss(
    arrays: _Arrays,
    shape: tuple[int, int],
    n_columns: int,
    n_vocab: int,
    temperature: float,
    config_json: str,
    denominator: float | None,
    upstream: float,
    outputs: _Arrays,
    n_threads: int,
) -> _Result: ...
def opcodes(a: list[int], b: list[int], autojunk: bool) -> list[tuple[str, int, int, int, int]]: ...
def opcodes_of_pairs(symbols: bytes, ends: list[int], autojunk: bool) -> tuple[bytes, bytes]: ...
def ratio(a: list[int], b: list[int], autojunk: bool) -> float: ...
def opcode_anchors(tasks: list[list[_Root]], given: _OpcodeSettings, n_threads: int) -> list[list[_Anchor]]: ...
def groupability(size: float, count: int, given: _OpcodeSettings) -> float: ...
def refine(sources: list[str], threshold: float) -> list[int]: ...
def baselined(values: list[float], epsilon: float, remove_std: bool) -> list[float]: ...
def fill(units: list[_Unit], n_tokens: int, to: _Array) -> list[int]: ...
