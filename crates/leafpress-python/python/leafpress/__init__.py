"""Leafpress, the write path for SQLite."""

from __future__ import annotations

from ._async import AsyncTransaction, AsyncWriter
from ._errors import (
    Cancelled,
    DatabaseError,
    DataError,
    Error,
    IntegrityError,
    InternalError,
    LeaseLost,
    NotSupportedError,
    OperationalError,
    OutcomeUnknown,
    ProgrammingError,
    QueueFull,
    TimedOut,
)
from ._leafpress import __version__
from ._result import Executed, Result
from ._writer import Reader, Ticket, Transaction, Writer

__all__ = [
    "AsyncTransaction",
    "AsyncWriter",
    "Cancelled",
    "DataError",
    "DatabaseError",
    "Error",
    "Executed",
    "IntegrityError",
    "InternalError",
    "LeaseLost",
    "NotSupportedError",
    "OperationalError",
    "OutcomeUnknown",
    "ProgrammingError",
    "QueueFull",
    "Reader",
    "Result",
    "Ticket",
    "TimedOut",
    "Transaction",
    "Writer",
    "__version__",
]
