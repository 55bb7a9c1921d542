"""Work to be done when a module of a trainer is imported, by whoever imports it: nothing is imported for it."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import sys
from collections.abc import Callable, Sequence
from types import ModuleType

Callback = Callable[[ModuleType], None]

_waiting: dict[str, list[Callback]] = {}


def when_imported(name: str, callback: Callback) -> None:
    """Calls `callback` with the module `name`: now where it has been imported, else right after it is.

    What the callback raises, the import raises.
    """
    module = sys.modules.get(name)
    if module is not None and not getattr(module.__spec__, "_initializing", False):
        callback(module)
        return
    _waiting.setdefault(name, []).append(callback)
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())


class _Finder(importlib.abc.MetaPathFinder):
    """Finds what the other finders find, and has the module's loader call back."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname not in _waiting:
            return None
        for finder in sys.meta_path:
            if isinstance(finder, _Finder) or not hasattr(finder, "find_spec"):
                continue
            spec = finder.find_spec(fullname, path, target)
            if spec is not None:
                if spec.loader is not None:
                    _call_after(spec.loader, fullname)
                return spec
        return None


def _call_after(loader: importlib.abc.Loader, name: str) -> None:
    run = loader.exec_module

    def exec_module(module: ModuleType) -> None:
        run(module)
        for callback in _waiting.pop(name, []):
            callback(module)

    vars(loader)["exec_module"] = exec_module
