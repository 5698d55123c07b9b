"""Transactions whose rows tell whether one was lost, doubled or torn. Tests of neighbours write them
into one table, and judge them by the standard library's SQLite."""

import sqlite3
from contextlib import closing

TABLE = """CREATE TABLE entry(id INTEGER NOT NULL, part INTEGER NOT NULL, parts INTEGER NOT NULL);
CREATE INDEX entry_id ON entry(id)"""


def statements(number):
    """The statements of a transaction: one to three rows."""
    parts = 1 + number % 3
    return [f"INSERT INTO entry VALUES ({number}, {part}, {parts})" for part in range(parts)]


def judge(path, acknowledged):
    """Counts what is wrong: (lost, double, in part, damage)."""
    try:
        with closing(sqlite3.connect(path, timeout=60)) as connection:
            integrity = connection.execute("PRAGMA integrity_check").fetchone()[0]
            rows = connection.execute(
                "SELECT id, count(*), count(DISTINCT part), max(parts)"
                " FROM entry NOT INDEXED GROUP BY id"
            ).fetchall()
    except sqlite3.Error as error:
        return len(acknowledged), 0, 0, str(error)
    there = {number for number, *_ in rows}
    double = sum(count > distinct for _, count, distinct, _ in rows)
    torn = sum(distinct < parts for _, _, distinct, parts in rows)
    return len(acknowledged - there), double, torn, integrity
