"""Leafpress, the write path for SQLite."""

from __future__ import annotations

import typing as _t
from importlib import import_module as _import_module

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
from ._load import LoadOptions, Progress, load
from ._options import CheckpointLimits, WriterOptions
from ._report import BadRow, ChangedForm, Column, DecidedBy, DryRun, RejectReason, Report, Stage
from ._result import Executed, Result
from ._writer import Reader, Ticket, Transaction, Writer

if _t.TYPE_CHECKING:
    from ._async import AsyncReader, AsyncTransaction, AsyncWriter
    from ._bench import BenchReport, bench
    from ._command import advise, doctor, index, storage, verify
    from ._engines import PartReport, ShardOptions, ShardProgress, ShardReport
    from ._jobs import AsyncJob, Job, JobOptions, NewJob, Pushed
    from ._queue import AsyncQueue, Queue, QueueSettings, SyncQueue
    from ._shards import Shards
    from ._work import AsyncWork, Stop, Work, WorkOptions, WorkReport
else:
    # Imported when they are first used: asyncio alone takes longer than all that most programs need.
    _LATER = {
        "_async": "AsyncReader AsyncTransaction AsyncWriter",
        "_bench": "BenchReport bench",
        "_command": "advise doctor index storage verify",
        "_engines": "PartReport ShardOptions ShardProgress ShardReport",
        "_jobs": "AsyncJob Job JobOptions NewJob Pushed",
        "_queue": "AsyncQueue Queue QueueSettings SyncQueue",
        "_shards": "Shards",
        "_work": "AsyncWork Stop Work WorkOptions WorkReport",
    }
    _MODULES = {name: module for module, names in _LATER.items() for name in names.split()}

    # The checkers are not shown this function: they would take any name for one of the package.
    def __getattr__(name: str) -> _t.Any:
        module = _MODULES.get(name)
        if module is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = getattr(_import_module(f".{module}", __name__), name)
        globals()[name] = value
        return value

    def __dir__() -> list[str]:
        return sorted({*globals(), *_MODULES})

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
    "QueueSettings",
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
