"""Options of Writer and AsyncWriter."""

from __future__ import annotations

from typing import Literal, TypedDict


class CheckpointLimits(TypedDict, total=False):
    """When the write-ahead log is copied into the database. Times are in seconds."""

    slice_frames: int
    """A pass each time the log has grown by so many pages (1,000)."""
    wal_bytes_max: int
    """The log becomes no larger, unless a reader holds an old state (64 MB)."""
    catch_up_bytes: int
    """From this size on the log is copied as a whole (8 MB)."""
    pause_bytes: int
    """A log of this size is copied as a whole when the writing pauses (4 MB)."""
    pause_before_pass: float
    """Time without a commit that is a pause (0.02)."""
    idle_before_truncate: float
    """Time without a commit after which the log is cut to nothing (2)."""
    stuck_reader_after: float
    """Time after which a reader that holds the log is reported by name (10)."""
    catch_up_wait_max: float
    """Longest wait of the writer for readers (0.015)."""
    gate_wait_max: float
    """Longest wait of the writer for the copying (1)."""
    stop_wait_max: float
    """Longest wait for readers at the close (0.5)."""


class WriterOptions(TypedDict, total=False):
    """Options of a writer; in brackets what holds without each. Times are in seconds."""

    profile: Literal["durable", "relaxed", "rollback", "rebuildable"]
    """Promise of the commits ("durable")."""
    rebuildable_ok: bool
    """Allows "rebuildable": the file can be made anew (False)."""
    shared: bool
    """Shares commits with the writers of other processes that ask for the same (False)."""
    foreign_keys: bool
    """Enforces foreign keys (True)."""
    page_size: int
    """Bytes in a page of a new database (4,096)."""
    atomic: Literal["where_proven", "assume", "off"]
    """When "rollback" writes transactions of one page without a journal ("where_proven")."""
    locking: Literal["shared", "exclusive"]
    """Which connections may use the database meanwhile: all, or none ("shared")."""
    small: bool
    """Uses less memory (False)."""
    busy_timeout: float
    """Longest wait for the lock of another connection (5)."""
    queue_capacity: int
    """Calls that may wait; the next one waits for room (8,192)."""
    max_group: int
    """Largest number of calls in one commit (8,192)."""
    max_delay: float
    """Longest wait of a call for others that join its commit (0)."""
    call_limit: float
    """Longest time that one call may run before it is stopped (no limit)."""
    readers: int
    """Read-only connections that may be out at once (16)."""
    reader_wait: float
    """Longest wait for one of them to come back (5)."""
    checkpoint: CheckpointLimits
    """Limits of the write-ahead log."""
