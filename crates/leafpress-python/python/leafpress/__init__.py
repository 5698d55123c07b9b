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
from ._jobs import AsyncJob, Job, JobOptions, NewJob, Pushed
from ._leafpress import __version__
from ._queue import AsyncQueue, Queue, SyncQueue
from ._result import Executed, Result
from ._work import AsyncWork, Stop, Work, WorkOptions, WorkReport
from ._writer import Reader, Ticket, Transaction, Writer

__all__ = [
    "AsyncJob",
    "AsyncQueue",
    "AsyncTransaction",
    "AsyncWork",
    "AsyncWriter",
    "Cancelled",
    "DataError",
    "DatabaseError",
    "Error",
    "Executed",
    "IntegrityError",
    "InternalError",
    "Job",
    "JobOptions",
    "LeaseLost",
    "NewJob",
    "NotSupportedError",
    "OperationalError",
    "OutcomeUnknown",
    "ProgrammingError",
    "Pushed",
    "Queue",
    "QueueFull",
    "Reader",
    "Result",
    "Stop",
    "SyncQueue",
    "Ticket",
    "TimedOut",
    "Transaction",
    "Work",
    "WorkOptions",
    "WorkReport",
    "Writer",
    "__version__",
]
