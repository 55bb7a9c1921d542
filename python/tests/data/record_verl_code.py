"""Writes verl_code.json: what the authors' code gives for the made-up batches.

python record_verl_code.py CHECKOUT_OF_VERL_CODE
"""

import contextlib
import io
import json
import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [sys.argv[1], str(HERE.parent)]

from didpo import core_didpo  # noqa: E402
from test_verl_code import COMMIT, arguments, plain, runs  # noqa: E402
from verl_code_batches import CASES  # noqa: E402

cases = {}
for name, seed, parameters in CASES:
    with contextlib.redirect_stdout(io.StringIO()):
        advantages, _, diagnostics = core_didpo.compute_didpo_outcome_advantage(**arguments(seed), **parameters)
    cases[name] = {"advantages": runs(advantages), "diagnostics": plain(diagnostics)}
text = json.dumps({"commit": COMMIT, "cases": cases}, separators=(",", ":"))
(HERE / "verl_code.json").write_text(text.replace('"cases":{', '"cases":{\n').replace("]]]", "]]]\n") + "\n")
