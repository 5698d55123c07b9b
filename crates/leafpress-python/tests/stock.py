"""Databases as Python's own sqlite3 reads them."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any


def query(database: Path, sql: str) -> list[tuple[Any, ...]]:
    connection = sqlite3.connect(database)
    try:
        return connection.execute(sql).fetchall()
    finally:
        connection.close()
