"""Dask frames into one SQLite file."""

from __future__ import annotations

from typing import Any

from dask.base import compute
from dask.delayed import delayed

from ._parts import Parts
from ._sources import Path

__all__ = ["to_sqlite"]


def to_sqlite(frame: Any, db: Path, table: str, *, if_exists: str = "fail") -> int:
    """Writes a frame of `dask.dataframe` into one table of one file; returns the number of rows.

    Each partition is one durable transaction of a shared Writer, in whichever thread or process of
    this machine computes it. Named levels of the index become columns.

    if_exists: "fail" (an error if the table is there) or "append".

    After an exception a table that the call has made is dropped again. In a table that was there,
    the rows of the finished partitions stay. A partition that is computed again writes nothing
    twice, and counts no rows then.
    """
    if any(name is not None for name in frame._meta.index.names):
        frame = frame.reset_index()
    parts = Parts(db, table, if_exists)
    parts.begin(frame._meta)
    write = delayed(parts.write, pure=False)
    try:
        counts = compute(
            *(write(number, [part]) for number, part in enumerate(frame.to_delayed()))
        )
    except BaseException:
        parts.abandon()
        raise
    parts.end()
    return sum(counts)
