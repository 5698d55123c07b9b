"""A FastAPI application that writes one durable row for each request, for bench_python.py.

Started by gunicorn. The environment says how (`BENCH_WAY`) and where (`BENCH_DATABASE`).
"""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI

DATABASE = os.environ["BENCH_DATABASE"]
WAY = os.environ["BENCH_WAY"]
EVENT = "INSERT INTO event(what) VALUES (?)"

# Seconds that a connection waits for another one's lock: none of the requests fails.
LOCK_TIMEOUT_S = 60


def connect() -> sqlite3.Connection:
    """A connection as durable as ours, whose every statement is a transaction."""
    connection = sqlite3.connect(
        DATABASE, timeout=LOCK_TIMEOUT_S, isolation_level=None, check_same_thread=False
    )
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    return connection


if WAY == "leafpress":
    import leafpress

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with leafpress.AsyncWriter(DATABASE, shared=True) as writer:
            app.state.writer = writer
            yield

    app = FastAPI(lifespan=lifespan)

    @app.post("/{what}")
    async def write(what: str) -> dict:
        """Answers when the row is durable."""
        await app.state.writer.execute(EVENT, (what,))
        return {"what": what}

elif WAY == "sqlite3-threads":
    app = FastAPI()
    of_thread = threading.local()

    @app.post("/{what}")
    def write(what: str) -> dict:
        """In a thread of FastAPI's pool, each with a connection of its own."""
        if not hasattr(of_thread, "connection"):
            of_thread.connection = connect()
        of_thread.connection.execute(EVENT, (what,))
        return {"what": what}

else:
    app = FastAPI()
    connection = connect()

    @app.post("/{what}")
    async def write(what: str) -> dict:
        """In the thread of the event loop, one connection for each worker process."""
        connection.execute(EVENT, (what,))
        return {"what": what}
