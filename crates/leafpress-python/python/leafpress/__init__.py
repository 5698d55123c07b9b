"""Leafpress, the write path for SQLite."""

from __future__ import annotations

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

__all__ = [
    "Cancelled",
    "DataError",
    "DatabaseError",
    "Error",
    "IntegrityError",
    "InternalError",
    "LeaseLost",
    "NotSupportedError",
    "OperationalError",
    "OutcomeUnknown",
    "ProgrammingError",
    "QueueFull",
    "TimedOut",
    "__version__",
]
