"""Exceptions of the package. Each inherits from ours and from the one of `sqlite3`
that people catch."""

from __future__ import annotations

import sqlite3


class Error(Exception):
    """An operation of Leafpress has failed.

    The text says what happened, where, what is on disk now and what to do. The same as attributes,
    each None if it is not known or does not apply:
    """

    kind: str = "sqlite"
    """Kind of the failure, for programs: "busy", "constraint", "bad_row", …"""
    file: str | None = None
    """Name of the input that the failure is about."""
    line: int | None = None
    """Line in that input, counted from 1; for rows of Python the number of the row."""
    column: int | None = None
    """Byte column in that line, counted from 1."""
    on_disk: str | None = None
    """State of the database after the failure."""
    to_do: str | None = None
    """Advice."""
    sqlite_errorcode: int | None = None
    """Extended result code of SQLite, if SQLite has refused the operation."""
    sqlite_errorname: str | None = None
    """Name of that code."""
    is_retryable: bool = False
    """True if the same call may succeed later, and nothing of it was done: the database was busy, the
    queue full, the time up, or a transaction undone by another call."""


class DatabaseError(Error, sqlite3.DatabaseError):
    """The database is damaged, or the file is no database."""


class DataError(DatabaseError, sqlite3.DataError):
    """A row or a value of the input cannot be stored."""


class IntegrityError(DatabaseError, sqlite3.IntegrityError):
    """A row breaks a rule of its table: UNIQUE, NOT NULL, CHECK, a foreign key, a type."""


class InternalError(DatabaseError, sqlite3.InternalError):
    """A fault of Leafpress, or of code that it called."""


class NotSupportedError(DatabaseError, sqlite3.NotSupportedError):
    """This platform, file system or build cannot do it."""


class OperationalError(DatabaseError, sqlite3.OperationalError):
    """The database is busy, the disk full, the file not writable, a statement wrong."""


class ProgrammingError(DatabaseError, sqlite3.ProgrammingError):
    """The call itself is wrong, and fails each time."""


class Cancelled(OperationalError):
    """The operation was stopped before its end. Nothing of it is written."""


class TimedOut(OperationalError, TimeoutError):
    """The call ran longer than it may. Nothing of it is written; only after a `Ticket.result` that has
    waited for its time does the call go on."""


class QueueFull(OperationalError):
    """The writer has as many waiting calls as it may have. Nothing of this one is written."""


class OutcomeUnknown(OperationalError):
    """All of the call or nothing of it is in the database: look, before you repeat it."""


class LeaseLost(OperationalError):
    """A claim of a job does not hold any more."""

    why: str | None = None
    """Reason: "expired" (and not claimed again so far), "claimed_again", "given_back" (by this claim) or
    "settled" (the job is done, dead or removed). None for a token that no claim was answered with, where
    `kind` is "no_such_claim"."""


_BY_KIND: dict[str, type[Error]] = {
    "bad_row": DataError,
    "too_many_rejects": DataError,
    "input": DataError,
    "misuse": ProgrammingError,
    "not_found": ProgrammingError,
    "refused": ProgrammingError,
    "forked": ProgrammingError,
    "unsupported": NotSupportedError,
    "damaged": DatabaseError,
    "not_a_database": DatabaseError,
    "bug": InternalError,
    "panicked": InternalError,
    "constraint": IntegrityError,
    "cancelled": Cancelled,
    "interrupted": Cancelled,
    "timed_out": TimedOut,
    "queue_full": QueueFull,
    "outcome_unknown": OutcomeUnknown,
    "lease_lost": LeaseLost,
    "no_such_claim": LeaseLost,
    "transaction_expired": LeaseLost,
}

# Kinds that are not SQLite's own, and yet may come with its code.
_BY_BOTH = frozenset({"constraint", "not_found"})

# As the module sqlite3 chooses, by SQLite's primary result code.
_BY_CODE: dict[int, type[Error]] = {
    2: InternalError,
    11: DatabaseError,
    18: DataError,
    19: IntegrityError,
    20: IntegrityError,
    21: ProgrammingError,
    25: ProgrammingError,
    26: DatabaseError,
}


def make(
    message: str,
    kind: str,
    code: int | None = None,
    on_disk: str | None = None,
    to_do: str | None = None,
    file: str | None = None,
    line: int | None = None,
    column: int | None = None,
    is_retryable: bool = False,
    why: str | None = None,
) -> Error:
    """The exception for an error of the native module."""
    made = _BY_KIND.get(kind)
    if code is not None and (made is None or kind in _BY_BOTH):
        made = _BY_CODE.get(code & 0xFF, OperationalError)
    error = (made or OperationalError)(message)
    error.kind = kind
    error.on_disk = on_disk
    error.to_do = to_do
    error.file, error.line, error.column = file, line, column
    error.is_retryable = is_retryable
    if isinstance(error, LeaseLost):
        error.why = why
    error.sqlite_errorcode = code
    error.sqlite_errorname = None if code is None else _code_name(code)
    return error


def unfit(message: str) -> DataError:
    """The exception for a value that SQLite cannot hold."""
    error = DataError(message)
    error.kind = "bad_row"
    return error


def not_utf8(message: str) -> DataError:
    """The exception for a text of a database that Python has no object for."""
    advice = "read its bytes: CAST(column AS BLOB)"
    error = DataError(f"{message}\nto do: {advice}")
    error.kind, error.to_do = "input", advice
    return error


def misuse(message: str, to_do: str | None = None) -> ProgrammingError:
    """The exception for a call that is wrong."""
    error = ProgrammingError(message if to_do is None else f"{message}\nto do: {to_do}")
    error.kind = "misuse"
    error.to_do = to_do
    return error


def placed(error: BaseException, place: str, row: int | None) -> BaseException:
    """The exception for a value that SQLite cannot hold, with its place in the call, and the number of its
    row from 1 if it is in one."""
    if not isinstance(error, DataError):
        return error
    text = f"{place}: {error}\non disk: nothing of this call"
    if error.to_do is not None:
        text += f"\nto do: {error.to_do}"
    named = DataError(text)
    named.kind, named.line, named.on_disk = "bad_row", row, "nothing of this call"
    named.to_do = error.to_do
    return named


# SQLite's result codes: the primary ones, and after the colon the extended ones from 1 on.
_CODES = """\
1 ERROR: MISSING_COLLSEQ RETRY SNAPSHOT
2 INTERNAL
3 PERM
4 ABORT: - ROLLBACK
5 BUSY: RECOVERY SNAPSHOT TIMEOUT
6 LOCKED: SHAREDCACHE VTAB
7 NOMEM
8 READONLY: RECOVERY CANTLOCK ROLLBACK DBMOVED CANTINIT DIRECTORY
9 INTERRUPT
10 IOERR: READ SHORT_READ WRITE FSYNC DIR_FSYNC TRUNCATE FSTAT UNLOCK RDLOCK DELETE BLOCKED NOMEM \
    ACCESS CHECKRESERVEDLOCK LOCK CLOSE DIR_CLOSE SHMOPEN SHMSIZE SHMLOCK SHMMAP SEEK DELETE_NOENT \
    MMAP GETTEMPPATH CONVPATH VNODE AUTH BEGIN_ATOMIC COMMIT_ATOMIC ROLLBACK_ATOMIC DATA CORRUPTFS \
    IN_PAGE
11 CORRUPT: VTAB SEQUENCE INDEX
12 NOTFOUND
13 FULL
14 CANTOPEN: NOTEMPDIR ISDIR FULLPATH CONVPATH DIRTYWAL SYMLINK
15 PROTOCOL
16 EMPTY
17 SCHEMA
18 TOOBIG
19 CONSTRAINT: CHECK COMMITHOOK FOREIGNKEY FUNCTION NOTNULL PRIMARYKEY TRIGGER UNIQUE VTAB ROWID \
    PINNED DATATYPE
20 MISMATCH
21 MISUSE
22 NOLFS
23 AUTH: USER
24 FORMAT
25 RANGE
26 NOTADB
27 NOTICE: RECOVER_WAL RECOVER_ROLLBACK RBU
28 WARNING: AUTOINDEX
100 ROW
101 DONE
"""


def _code_names() -> dict[int, str]:
    names = {}
    for line in _CODES.strip().splitlines():
        primary, _, extended = line.partition(":")
        code, name = primary.split()
        names[int(code)] = f"SQLITE_{name}"
        for number, more in enumerate(extended.split(), 1):
            names[int(code) | number << 8] = f"SQLITE_{name}_{more}"
    return names


_NAMES = _code_names()


def _code_name(code: int) -> str | None:
    """SQLite's name of a result code; of its primary code if the other is new."""
    return _NAMES.get(code) or _NAMES.get(code & 0xFF)
