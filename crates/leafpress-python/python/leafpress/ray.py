"""Ray Data into one SQLite file: `dataset.write_datasink(LeafpressDatasink("app.db", "people"))`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ray.data import Datasink
from ray.data.block import Block
from ray.data.datasource import WriteResult

from ._parts import Parts
from ._sources import Path

__all__ = ["LeafpressDatasink"]


class LeafpressDatasink(Datasink[int]):
    """Writes a dataset into one table of one file, by many tasks of one machine.

    Each write task is one durable transaction of a shared Writer, so that the tasks share commits
    and do not lock each other out. A task that Ray tries again writes nothing twice.

    if_exists: "fail" (an error if the table is there) or "append".

    After a failed write a table that it has made is dropped again. In a table that was there, the
    rows of the finished tasks stay. If the driver dies, both stay, and so does the small table
    `_leafpress_part`, which may be dropped.
    """

    def __init__(self, db: Path, table: str, *, if_exists: str = "fail") -> None:
        """Names the place. Raises `ProgrammingError` for another `if_exists`."""
        self._parts = Parts(db, table, if_exists)

    def on_write_start(self, schema: Any = None) -> None:
        """Makes the table."""
        self._parts.begin(_empty_frame(schema))

    def write(self, blocks: Iterable[Block], ctx: Any) -> int:
        """Writes the blocks of one task; the number of their rows."""
        return self._parts.write(ctx.task_idx, blocks)

    def on_write_complete(self, write_result: WriteResult[int]) -> None:
        """Removes what told which tasks are done."""
        self._parts.end()

    def on_write_failed(self, error: Exception) -> None:
        """Drops the table if this write has made it."""
        self._parts.abandon()

    @property
    def supports_distributed_writes(self) -> bool:
        """False: the file is on the driver's machine."""
        return False


def _empty_frame(schema: Any) -> Any:
    """A frame without rows, of the schema of a block."""
    if hasattr(schema, "empty_table"):
        return schema.empty_table()
    import pandas

    columns = zip(schema.names, schema.types, strict=True)
    return pandas.DataFrame({name: pandas.Series(dtype=kind) for name, kind in columns})
