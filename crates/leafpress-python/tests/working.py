"""Queues that tests work on."""

from __future__ import annotations

import contextlib
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import leafpress as lp


def states(path: Path) -> dict[str, int]:
    with contextlib.closing(sqlite3.connect(path)) as database:
        sql = "SELECT state, count(*) FROM leafpress_jobs GROUP BY state"
        return dict(database.execute(sql).fetchall())


def wait_until(is_so: Callable[[], bool], limit_s: float = 20.0) -> None:
    ends = time.monotonic() + limit_s
    while not is_so():
        assert time.monotonic() < ends, "it was not so in time"
        time.sleep(0.01)


def pushed(path: Path, count: int, **settings: Any) -> None:
    with lp.Queue(path, "mail", **settings) as queue:
        queue.push_many(range(count))
