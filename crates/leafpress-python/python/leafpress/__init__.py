"""Leafpress, the write path for SQLite."""

from __future__ import annotations

from ._async import AsyncReader, AsyncTransaction, AsyncWriter
from ._bench import BenchReport, bench
from ._command import advise, doctor, index, storage, verify
from ._engines import PartReport, ShardOptions, ShardProgress, ShardReport
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
from ._jobs import AsyncJob, Job, JobOptions, NewJob, Pushed
from ._leafpress import __version__
from ._load import LoadOptions, Progress, load
from ._options import CheckpointLimits, WriterOptions
from ._queue import AsyncQueue, Queue, SyncQueue
from ._report import BadRow, ChangedForm, Column, DecidedBy, DryRun, RejectReason, Report, Stage
from ._result import Executed, Result
from ._shards import Shards
from ._work import AsyncWork, Stop, Work, WorkOptions, WorkReport
from ._writer import Reader, Ticket, Transaction, Writer

__all__ = [
    "AsyncJob",
    "AsyncQueue",
    "AsyncReader",
    "AsyncTransaction",
    "AsyncWork",
    "AsyncWriter",
    "BadRow",
    "BenchReport",
    "Cancelled",
    "ChangedForm",
    "CheckpointLimits",
    "Column",
    "DataError",
    "DatabaseError",
    "DecidedBy",
    "DryRun",
    "Error",
    "Executed",
    "IntegrityError",
    "InternalError",
    "Job",
    "JobOptions",
    "LeaseLost",
    "LoadOptions",
    "NewJob",
    "NotSupportedError",
    "OperationalError",
    "OutcomeUnknown",
    "PartReport",
    "ProgrammingError",
    "Progress",
    "Pushed",
    "Queue",
    "QueueFull",
    "Reader",
    "RejectReason",
    "Report",
    "Result",
    "ShardOptions",
    "ShardProgress",
    "ShardReport",
    "Shards",
    "Stage",
    "Stop",
    "SyncQueue",
    "Ticket",
    "TimedOut",
    "Transaction",
    "Work",
    "WorkOptions",
    "WorkReport",
    "Writer",
    "WriterOptions",
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
