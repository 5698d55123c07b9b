"""Leafpress, the write path for SQLite."""

from __future__ import annotations

from ._async import AsyncTransaction, AsyncWriter
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
from ._frames import register as _register
from ._leafpress import __version__
from ._load import Progress, load
from ._report import BadRow, ChangedForm, Column, DecidedBy, DryRun, RejectReason, Report, Stage
from ._result import Executed, Result
from ._writer import Reader, Ticket, Transaction, Writer

__all__ = [
    "AsyncTransaction",
    "AsyncWriter",
    "BadRow",
    "BenchReport",
    "Cancelled",
    "ChangedForm",
    "Column",
    "DataError",
    "DatabaseError",
    "DecidedBy",
    "DryRun",
    "Error",
    "Executed",
    "IntegrityError",
    "InternalError",
    "LeaseLost",
    "NotSupportedError",
    "OperationalError",
    "OutcomeUnknown",
    "ProgrammingError",
    "Progress",
    "QueueFull",
    "Reader",
    "RejectReason",
    "Report",
    "Result",
    "Stage",
    "Ticket",
    "TimedOut",
    "Transaction",
    "Writer",
    "__version__",
    "advise",
    "bench",
    "doctor",
    "index",
    "load",
    "storage",
    "verify",
]

_register()
