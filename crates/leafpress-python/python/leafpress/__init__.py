"""Leafpress, the write path for SQLite."""

from __future__ import annotations

from ._bench import BenchReport, bench
from ._command import advise, doctor, index, storage, verify
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
    "BenchReport",
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
    "advise",
    "bench",
    "doctor",
    "index",
    "storage",
    "verify",
]
