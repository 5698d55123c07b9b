"""`df.leafpress.write(…)` for frames of polars, also lazy ones, and of pandas.

The namespace is registered when `leafpress` is imported, or when polars or pandas is imported
after it. Neither is imported for that.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType
from typing import TYPE_CHECKING, Any

from ._load import LoadOptions, load
from ._report import Report
from ._sources import Path
from ._typing import Unpack

if TYPE_CHECKING:
    from importlib.abc import Loader, MetaPathFinder
else:
    # Their module imports zipfile, tempfile and more, and nothing needs the classes.
    Loader = MetaPathFinder = object


class FrameNamespace:
    """The namespace `leafpress` of a frame, as in `df.leafpress.write`."""

    def __init__(self, frame: Any) -> None:
        self._frame = frame

    def write(self, db: Path, **options: Unpack[LoadOptions]) -> Report:
        """Loads the frame into a table, all or nothing: `leafpress.load(db, df, table="…")`.

        The options, of which `table` is needed, the report and the exceptions are those of `load`.
        """
        return load(db, self._frame, **options)


def _register_polars(polars: ModuleType) -> None:
    # It is there if this package is loaded again.
    if not hasattr(polars.DataFrame, "leafpress"):
        polars.api.register_dataframe_namespace("leafpress")(FrameNamespace)
        polars.api.register_lazyframe_namespace("leafpress")(FrameNamespace)


def _register_pandas(pandas: ModuleType) -> None:
    if not hasattr(pandas.DataFrame, "leafpress"):
        pandas.api.extensions.register_dataframe_accessor("leafpress")(FrameNamespace)


_REGISTER: dict[str, Callable[[ModuleType], None]] = {
    "polars": _register_polars,
    "pandas": _register_pandas,
}


def register() -> None:
    """Registers the namespace in each library that is imported, now or later."""
    for name, register_in in _REGISTER.items():
        # A library that is being imported is still without its `api`.
        if name in sys.modules and hasattr(sys.modules[name], "DataFrame"):
            register_in(sys.modules[name])
        else:
            sys.meta_path.insert(0, _AfterImport(name, register_in))


class _AfterImport(MetaPathFinder):
    """Registers in a library when its import is done. Leaves all else to the other finders."""

    def __init__(self, name: str, register_in: Callable[[ModuleType], None]) -> None:
        self.name = name
        self.register_in = register_in
        self.others = threading.local()

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != self.name or getattr(self.others, "are_asked", False):
            return None
        self.others.are_asked = True
        try:
            spec = find_spec(fullname)
        finally:
            self.others.are_asked = False
        if spec is not None and spec.loader is not None:
            spec.loader = _Registering(spec, spec.loader, self)
        return spec


class _Registering(Loader):
    """Loads a module by its own loader, and registers in it."""

    def __init__(self, spec: ModuleSpec, loader: Loader, finder: _AfterImport) -> None:
        self.spec = spec
        self.loader = loader
        self.finder = finder

    def __getattr__(self, name: str) -> Any:
        # Others ask the loader of a spec for files and sources.
        return getattr(self.loader, name)

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self.loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        # The module sees its own loader, by which it may find its files.
        self.spec.loader = self.loader
        module.__loader__ = self.loader
        self.loader.exec_module(module)
        self.finder.register_in(module)
        if self.finder in sys.meta_path:
            sys.meta_path.remove(self.finder)
