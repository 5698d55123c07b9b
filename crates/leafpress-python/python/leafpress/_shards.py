"""A reader of shards: one table in many SQLite files, with a manifest."""

from __future__ import annotations

import json
from collections.abc import Mapping, Set
from datetime import timedelta
from types import TracebackType
from typing import Any

from . import _leafpress
from ._arguments import checked_methods, path_text
from ._command import flags, run_json
from ._errors import misuse
from ._load import _size
from ._result import Result
from ._sources import Path
from ._writer import Parameters, no_pickle

# More than 300 years.
_AGE_MAX_SECONDS = 1e10


@checked_methods()
class Shards:
    """A reader of the run that is current when it is made; it goes on with that run.

    Several threads may use it. Each part has one read-only connection, which is opened when it is
    first needed and kept until `close`.

    A key is the value of the routing column, or a tuple of the values of several. Raises
    `ProgrammingError` for a key where rows were split by count or by size: `scan` reads all parts.
    """

    def __init__(
        self,
        folder: Path,
        *,
        cache: Path | None = None,
        cache_size: int | str = "1G",
        ranges: bool = False,
    ) -> None:
        """Opens a folder of shards, or those at a URL such as "s3://bucket/people". Raises
        `ProgrammingError` if no run is current there.

        cache: a local folder for copies of parts, which several processes may share. Without it
            parts in a folder are read where they are, and those at a URL go through a temporary
            folder of at most 1 GiB.
        cache_size: most bytes of the copies, such as "10G". The copies that were not used for the
            longest time go first.
        ranges: read ranges of the parts at a URL, and no whole part: for lookups, in parts that
            were written with layout="remote". Each part has up to 64 MB of pages in memory.
        """
        self._folder = path_text(folder)
        if cache is None and cache_size != "1G":
            raise misuse("cache_size is the size of a cache that is named", "name it: cache=FOLDER")
        if cache is not None and ranges:
            raise misuse("cache= copies whole parts, and ranges=True none", "leave one of them out")
        copies = None if cache is None else (path_text(cache), _size("cache_size", cache_size) or 0)
        self._native = _leafpress.NativeShards(self._folder, copies, ranges)
        self._manifest: dict[str, Any] = json.loads(self._native.manifest())

    def __reduce__(self) -> Any:
        raise no_pickle(self, "send the folder or the URL, and make Shards in each process")

    @property
    def manifest(self) -> dict[str, Any]:
        """The manifest of the run, as docs/scale.md has it."""
        return self._manifest

    @property
    def run(self) -> str:
        """Name of the run."""
        return str(self._manifest["run"])

    @property
    def rows(self) -> int:
        """Number of rows of all parts."""
        return int(self._manifest["rows"])

    def part_of(self, key: Any) -> int:
        """The number of the part that has the rows of a key, if there are any."""
        return self._native.part_of(_values(key))

    def get(self, key: Any) -> Result:
        """The rows of a key, with all columns of the table."""
        return self._native.get(_values(key))

    def query(self, sql: str, parameters: Parameters = None, *, key: Any) -> Result:
        """The rows of a query on the one part that has a key."""
        return self._native.query(sql, parameters, _values(key))

    def scan(self, sql: str, parameters: Parameters = None) -> Result:
        """The rows of a query on each part, in the order of the parts; several are read at once.

        A sum or a count comes once for each part, and DISTINCT, ORDER BY and LIMIT hold within a part.
        """
        return self._native.scan(sql, parameters)

    def list(self) -> list[dict[str, Any]]:
        """The published runs, the oldest first; `current` marks the one that new readers take."""
        return list(run_json(["shards", "list", "--json", "--", self._folder])["runs"])

    def verify(self) -> dict[str, Any]:
        """Checks size, checksum, rows and `integrity_check` of each part of the current run, and
        that `manifest.db` says the same as the manifest. The result has `sound` (bool) and the
        problems."""
        return run_json(["shards", "verify", "--json", "--", self._folder])

    def rollback(self, run: str | None = None) -> dict[str, Any]:
        """Makes another run current: `run`, or the one before. This reader stays at its own."""
        return run_json(["shards", "rollback", *flags(to=run, json=True), "--", self._folder])

    def gc(
        self, *, older_than: float | timedelta | str | None = None, dry_run: bool = False
    ) -> dict[str, Any]:
        """Removes files that no manifest names. Those that changed within `older_than` (seconds, a
        timedelta or as "7d"), "1d" if None, stay, since their run may go on: with a short time a run
        that goes on may lose its files, and fails. `too_young` is the number of files that stay so."""
        words = flags(older_than=_age(older_than), dry_run=dry_run, json=True)
        return run_json(["shards", "gc", *words, "--", self._folder])

    def close(self) -> None:
        """Closes the connections. Later reads raise `ProgrammingError`."""
        self._native.close()

    def __enter__(self) -> Shards:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def _age(time: float | timedelta | str | None) -> str | None:
    """A time as the command takes it."""
    if time is None or isinstance(time, str):
        return time
    seconds = time.total_seconds() if isinstance(time, timedelta) else float(time)
    if not 0 <= seconds < _AGE_MAX_SECONDS:
        raise misuse(f"older_than={time!r} is no time", 'give seconds, a timedelta, or as "7d"')
    return f"{round(seconds * 1000)}ms"


def _values(key: Any) -> list[Any]:
    if isinstance(key, (tuple, list)):
        return list(key)
    if isinstance(key, (Mapping, Set)):
        kind = type(key).__name__
        raise misuse(f"an object of type {kind} is no key", "give a value, or a tuple of values")
    return [key]
