"""Work that waits for a trainer's import, and the doctor, without any trainer."""

import importlib
import subprocess
import sys

import pytest

from hunkwise import __main__ as command
from hunkwise import _doctor, _hooks


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A package that imports its own module by name, as trainers do."""
    folder = tmp_path / "late_trainer"
    folder.mkdir()
    (folder / "__init__.py").write_text("from late_trainer.losses import LOSSES\n")
    (folder / "losses.py").write_text('LOSSES = {"theirs": 1}\n')
    monkeypatch.syspath_prepend(tmp_path)
    importlib.invalidate_caches()
    yield "late_trainer"
    for name in ("late_trainer", "late_trainer.losses"):
        sys.modules.pop(name, None)
        _hooks._waiting.pop(name, None)


def test_callbacks_run_when_the_module_comes(package):
    called = []
    _hooks.when_imported(f"{package}.losses", lambda module: called.append(sorted(module.LOSSES)))
    _hooks.when_imported(f"{package}.losses", lambda module: module.LOSSES.update(ours=2))
    assert called == [] and package not in sys.modules
    module = importlib.import_module(package)
    assert called == [["theirs"]] and module.LOSSES == {"theirs": 1, "ours": 2}
    # The loader is the usual one: its source can be read.
    assert "LOSSES" in sys.modules[f"{package}.losses"].__loader__.get_source(f"{package}.losses")
    _hooks.when_imported(f"{package}.losses", lambda module: called.append("at once"))
    assert called[-1] == "at once"


def test_what_a_callback_raises_the_import_raises(package):
    def fail(module):
        raise RuntimeError("not this one")

    _hooks.when_imported(f"{package}.losses", fail)
    with pytest.raises(RuntimeError, match="not this one"):
        importlib.import_module(package)


def test_a_module_that_is_not_there_stays_missing():
    _hooks.when_imported("no_such_trainer.losses", lambda module: None)
    try:
        with pytest.raises(ModuleNotFoundError, match="no_such_trainer"):
            importlib.import_module("no_such_trainer.losses")
    finally:
        _hooks._waiting.pop("no_such_trainer.losses")


def test_the_doctor_names_every_trainer(capsys):
    assert command.main(["doctor"]) == 0
    told = capsys.readouterr().out.splitlines()
    assert told[0].startswith("-   hunkwise ")
    assert [line.split()[1] for line in told[1:]] == list(_doctor.TRAINERS)


def test_the_doctor_of_a_trainer_that_is_missing(monkeypatch, capsys):
    monkeypatch.setitem(_doctor.TRAINERS, "verl", ("no-such-package", "0.9.1"))
    assert command.main(["doctor", "verl"]) == 1
    assert "NO  verl is not installed (the adapter was written against 0.9.1)" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        command.main(["doctor", "nothing"])


def test_importing_the_adapters_imports_no_trainer():
    code = """
import sys
import hunkwise.nemo_rl, hunkwise.prime_rl, hunkwise.ray, hunkwise.rllm, hunkwise.skyrl, hunkwise.slime
import hunkwise.verl, hunkwise.verl_code
wanted = {"torch", "ray", "verl", "transformers", "pyarrow", "slime", "rllm", "skyrl", "nemo_rl", "prime_rl"}
print(sorted(wanted & set(sys.modules)))
"""
    assert subprocess.check_output([sys.executable, "-c", code], text=True) == "[]\n"
