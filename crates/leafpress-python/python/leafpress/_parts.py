"""Parts of one table, written by many tasks and processes of one machine, each part once.

A table of its own, `_leafpress_part`, says which parts are in: a part's row there and its rows in
the table are one transaction. So a task that is tried again writes nothing twice. A row of the
whole write is there until its end, so a task that comes later writes nothing at all.
"""

from __future__ import annotations

import os
import tempfile
import uuid
from collections.abc import Iterable
from typing import Any, Literal

from ._arguments import checked, path_text
from ._errors import OperationalError, misuse
from ._load import load
from ._sources import Path
from ._writer import Writer

_LEDGER = "_leafpress_part"
# The part that stands for the whole write, and is there from its beginning to its end.
_WHOLE = -1
# Parts that stand for a table which the first part with columns makes, and for one that it made.
_TO_MAKE = -2
_MADE = -3


class Parts:
    """One write of many parts. Processes get copies of it."""

    @checked
    def __init__(self, db: Path, table: str, if_exists: Literal["fail", "append"]) -> None:
        if if_exists not in ("fail", "append"):
            raise misuse(f"if_exists={if_exists!r}", 'give "fail" or "append"')
        # Tasks may have another working directory.
        self.path = os.path.abspath(path_text(db))
        self.table = table
        self.if_exists: Literal["fail", "append"] = if_exists
        self.id = uuid.uuid4().hex
        self.made_table = False

    def begin(self, empty_frame: Any | None) -> None:
        """Makes the table with the columns of a frame without rows. Without a frame the first part
        that has columns makes it.

        Raises `OperationalError` if the table is there and must not be. After any exception
        `abandon` removes what was made.
        """
        was_there = self.has_table()
        if empty_frame is not None:
            load(self.path, empty_frame, table=self.table, if_exists=self.if_exists)
            self.made_table = not was_there
        elif was_there and self.if_exists == "fail":
            raise self._is_there_already()
        with Writer(self.path, shared=True) as writer, writer.transaction() as tx:
            tx.execute(
                f"CREATE TABLE IF NOT EXISTS {_LEDGER}"
                "(id TEXT, part INTEGER, rows INTEGER, PRIMARY KEY (id, part)) WITHOUT ROWID"
            )
            self._note(tx, _WHOLE)
            if empty_frame is None and not was_there:
                self._note(tx, _TO_MAKE)

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
                self._note(tx, part)
                if given and self._is_in(tx, _TO_MAKE):
                    self._make_table(tx, given[0])
                count = sum(tx.insert_many(self.table, frame) for frame in given)
                sql = f"UPDATE {_LEDGER} SET rows = ? WHERE id = ? AND part = ?"
                tx.execute(sql, (count, self.id, part))
        return count

    def end(self) -> None:
        """Forgets which parts are in."""
        with Writer(self.path, shared=True) as writer, writer.transaction() as tx:
            self._forget(tx)

    def abandon(self) -> None:
        """Drops the table if this write has made it and all rows are its own. Rows in any other
        table stay."""
        if not self.made_table and not self._is_there(_LEDGER):
            return
        with Writer(self.path, shared=True) as writer, writer.transaction() as tx:
            made = self.made_table or (_has_ledger(tx) and self._is_in(tx, _MADE))
            if made and not self._has_rows_of_others(tx):
                tx.execute(f"DROP TABLE IF EXISTS {_quoted(self.table)}")
            self._forget(tx)
        self.made_table = False

    def _has_rows_of_others(self, tx: Any) -> bool:
        """True if the table has more rows than this write: another one has added to it, and may
        have ended."""
        if not _has_table(tx, self.table):
            return False
        own = 0
        if _has_ledger(tx):
            sql = f"SELECT coalesce(sum(rows), 0) FROM {_LEDGER} WHERE id = ?"
            [(own,)] = tx.execute(sql, (self.id,)).fetchall()
        sql = f"SELECT 1 FROM {_quoted(self.table)} LIMIT 1 OFFSET ?"
        return tx.execute(sql, (own,)).fetchone() is not None

    def _make_table(self, tx: Any, frame: Any) -> None:
        if self.if_exists == "fail" or not _has_table(tx, self.table):
            tx.execute(_declaration(self.table, frame))
            self._note(tx, _MADE)
        tx.execute(f"DELETE FROM {_LEDGER} WHERE id = ? AND part = ?", (self.id, _TO_MAKE))

    def _note(self, tx: Any, part: int) -> None:
        tx.execute(f"INSERT INTO {_LEDGER} VALUES (?, ?, 0)", (self.id, part))

    def _is_in(self, tx: Any, part: int) -> bool:
        found = tx.execute(f"SELECT 1 FROM {_LEDGER} WHERE id = ? AND part = ?", (self.id, part))
        return found.fetchone() is not None

    def _is_there_already(self) -> OperationalError:
        on_disk = "the database is as it was"
        to_do = 'give the table another name, or add to it with if_exists="append"'
        error = OperationalError(
            f"{self.path}: there is a table {self.table} already"
            f"\non disk: {on_disk}\nto do: {to_do}"
        )
        error.kind, error.on_disk, error.to_do = "table_exists", on_disk, to_do
        return error

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
            return _has_table(writer, table)


def _declaration(table: str, frame: Any) -> str:
    """The statement that makes a table for the columns of a frame."""
    no_rows = frame.iloc[:0] if hasattr(frame, "iloc") else frame.slice(0, 0)
    with tempfile.TemporaryDirectory(prefix="leafpress-parts-") as place:
        database = os.path.join(place, "part.db")
        load(database, no_rows, table=table)
        with Writer(database) as writer:
            return str(writer.query("SELECT sql FROM sqlite_schema").fetchall()[0][0])


def _has_ledger(tx: Any) -> bool:
    return _has_table(tx, _LEDGER)


def _has_table(database: Any, table: str) -> bool:
    """True if a transaction or a Writer has the table."""
    ask = database.query if isinstance(database, Writer) else database.execute
    sql = "SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = ? COLLATE NOCASE"
    return ask(sql, (table,)).fetchone() is not None


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
