"""Results of statements."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

Row = tuple[Any, ...]


class Executed(NamedTuple):
    """Changes of one statement."""

    rowcount: int
    """Rows that it inserted, changed or deleted, without those of triggers."""
    lastrowid: int
    """Rowid of this statement's last row, if it is an INSERT that has added one.

    Else, also for an upsert that has changed a row and for INSERT OR IGNORE of a row that is there,
    it is that of an earlier INSERT, which may be another caller's. RETURNING in a `transaction`
    gives the row in all cases.
    """


class Result:
    """The rows of a statement, in memory, read as from a cursor of `sqlite3`.

    A row is a tuple: NULL is None, and the others are int, float, str and bytes.
    """

    __slots__ = ("_at", "_rows", "columns", "lastrowid", "rowcount")

    columns: list[str]
    """Names of the columns; empty for a statement that returns no rows."""
    rowcount: int
    """Rows that the statement inserted, changed or deleted; 0 for a query, where `sqlite3` has -1."""
    lastrowid: int
    """Rowid of the last row that an INSERT has added, as in `Executed`; 0 from a read-only connection,
    where `sqlite3` has None."""

    def __init__(self, columns: list[str], rows: list[Row], rowcount: int, lastrowid: int) -> None:
        self.columns = columns
        self.rowcount = rowcount
        self.lastrowid = lastrowid
        self._rows = rows
        self._at = 0

    @property
    def description(self) -> list[tuple[str, None, None, None, None, None, None]] | None:
        """The columns as `sqlite3` describes them; None without columns."""
        return [(name, None, None, None, None, None, None) for name in self.columns] or None

    def fetchone(self) -> Row | None:
        """The next row; None after the last one."""
        return next(self, None)

    def fetchmany(self, size: int = 1) -> list[Row]:
        """At most `size` of the rows that are left."""
        begin, self._at = self._at, min(self._at + max(size, 0), len(self._rows))
        return self._rows[begin : self._at]

    def fetchall(self) -> list[Row]:
        """The rows that are left."""
        return self.fetchmany(len(self._rows))

    def __iter__(self) -> Iterator[Row]:
        return self

    def __next__(self) -> Row:
        if self._at == len(self._rows):
            raise StopIteration
        self._at += 1
        return self._rows[self._at - 1]

    def __repr__(self) -> str:
        return f"<Result of {len(self._rows)} rows × {len(self.columns)} columns>"
