"""The native module."""

from collections.abc import Callable
from typing import Any, final

__version__: str

def main(arguments: list[str], again: list[str]) -> int: ...
def load(
    database: str,
    kind: str,
    name: str,
    source: Any,
    options: dict[str, Any],
    dry_run: bool,
    progress: Callable[..., object] | None,
) -> str:
    """Loads an input, or only looks at it. Returns the report as JSON."""

@final
class Loop:
    """Side of an event loop where its tasks are woken."""

    def __new__(cls) -> Loop: ...
    def fileno(self) -> int: ...
    def drain(self) -> None: ...

@final
class Task:
    """A future of Rust that an event loop carries out."""

    def cancel(self) -> None: ...

@final
class NativeWriter:
    """A writer, until it is closed."""

    def __new__(cls, path: str) -> NativeWriter: ...
    def close(self) -> None: ...
