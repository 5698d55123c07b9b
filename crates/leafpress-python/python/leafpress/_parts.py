"""Parts of one table, written by many tasks and processes of one machine, each part once.

A table of its own, `_leafpress_part`, says which parts are in: a part's row there and its rows in
the table are one transaction. So a task that is tried again writes nothing twice. A row of the
whole write is there until its end, so a task that comes later writes nothing at all.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterable
from typing import Any, Literal

from ._errors import OperationalError, misuse
from ._load import load
from ._sources import Path
from ._writer import Writer

_LEDGER = "_leafpress_part"
# The part that stands for the whole write, and is there from its beginning to its end.
_WHOLE = -1


class Parts:
    """One write of many parts. Processes get copies of it."""

    def __init__(self, db: Path, table: str, if_exists: Literal["fail", "append"]) -> None:
        if if_exists not in ("fail", "append"):
            raise misuse(f"if_exists={if_exists!r}", 'give "fail" or "append"')
        # Tasks may have another working directory.
        self.path = os.path.abspath(os.fsdecode(db))
        self.table = table
        self.if_exists: Literal["fail", "append"] = if_exists
        self.id = uuid.uuid4().hex
        self.made_table = False

    def begin(self, empty_frame: Any) -> None:
        """Makes the table with the columns of a frame without rows.

        Raises `OperationalError` if the table is there and must not be. After any exception
        `abandon` removes what was made.
        """
        was_there = self.has_table()
        load(self.path, empty_frame, table=self.table, if_exists=self.if_exists)
        self.made_table = not was_there
        with Writer(self.path, shared=True) as writer, writer.transaction() as tx:
            tx.execute(
                f"CREATE TABLE IF NOT EXISTS {_LEDGER}"
                "(id TEXT, part INTEGER, PRIMARY KEY (id, part)) WITHOUT ROWID"
            )
            tx.execute(f"INSERT INTO {_LEDGER} VALUES (?, ?)", (self.id, _WHOLE))

    def write(self, part: int, frames: Iterable[Any]) -> int:
        """Writes the rows of one part as one transaction; returns their number.

        That is 0 for a part that is in already. After an exception nothing of the part is in.

        Raises `OperationalError` if the write has ended: then it is not known any more which parts
        are in, and the task is a late copy of one that has counted.
        """
        given = list(frames)
        count = 0
        with Writer(self.path, shared=True) as writer, writer.transaction() as tx:
            if not (_has_ledger(tx) and self._is_in(tx, _WHOLE)):
                raise self._over()
            if not self._is_in(tx, part):
                tx.execute(f"INSERT INTO {_LEDGER} VALUES (?, ?)", (self.id, part))
                count = sum(tx.insert_many(self.table, frame) for frame in given)
        return count

    def end(self) -> None:
        """Forgets which parts are in."""
        with Writer(self.path, shared=True) as writer, writer.transaction() as tx:
            self._forget(tx)

    def abandon(self) -> None:
        """Drops the table if this write has made it. Rows in a table that was there stay."""
        if not self.made_table and not self._is_there(_LEDGER):
            return
        with Writer(self.path, shared=True) as writer, writer.transaction() as tx:
            if self.made_table:
                tx.execute(f"DROP TABLE IF EXISTS {_quoted(self.table)}")
            self._forget(tx)
        self.made_table = False

    def _is_in(self, tx: Any, part: int) -> bool:
        found = tx.execute(f"SELECT 1 FROM {_LEDGER} WHERE id = ? AND part = ?", (self.id, part))
        return found.fetchone() is not None

    def _over(self) -> OperationalError:
        on_disk, to_do = "nothing of this part", "let this task go: a copy of it has counted"
        error = OperationalError(
            f"the write into {self.table!r} has ended before this task"
            f"\non disk: {on_disk}\nto do: {to_do}"
        )
        error.kind, error.on_disk, error.to_do = "changed", on_disk, to_do
        return error

    def _forget(self, tx: Any) -> None:
        if not _has_ledger(tx):
            return
        tx.execute(f"DELETE FROM {_LEDGER} WHERE id = ?", (self.id,))
        if tx.execute(f"SELECT 1 FROM {_LEDGER} LIMIT 1").fetchone() is None:
            tx.execute(f"DROP TABLE {_LEDGER}")

    def has_table(self) -> bool:
        """True if the table is there."""
        return self._is_there(self.table)

    def _is_there(self, table: str) -> bool:
        if not os.path.exists(self.path):
            return False
        with Writer(self.path, shared=True) as writer:
            found = writer.query(
                "SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = ? COLLATE NOCASE",
                (table,),
            )
            return found.fetchone() is not None


def _has_ledger(tx: Any) -> bool:
    sql = "SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = ?"
    return tx.execute(sql, (_LEDGER,)).fetchone() is not None


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
