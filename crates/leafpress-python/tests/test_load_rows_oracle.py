"""Random rows of Python, held against the same rows inserted by `sqlite3`.

The rows go into the table that `load` declares for them, by its own statement. Each value and its
`typeof` is compared, so the types that were found and the values that were pressed are judged.
"""

from __future__ import annotations

import math
import random
import sqlite3

import leafpress as lp
import polars
import pytest

INTEGERS = [0, 1, -1, 2**31, 2**53, 2**53 + 1, 2**63 - 1, -(2**63), True, False]
REALS = [0.5, -0.0, 3.0, 1e15, 1e300, -1e-300, math.inf, -math.inf, math.nan, 2.0**63, 0.1]
TEXTS = ["", "é", "12", " 12 ", "1e3", "0x10", "a\x00b", "'\"", "x" * 5000, "2026-01-01", "NULL"]
BLOBS = [b"", b"\x00\xff", b"12", b"y" * 5000, bytearray(b"z")]
KINDS = [INTEGERS, REALS, TEXTS, BLOBS, INTEGERS + REALS, INTEGERS + TEXTS, TEXTS + BLOBS + REALS]


def value(chance: random.Random, kind: list) -> object:
    if chance.random() < 0.1:
        return None
    if kind is INTEGERS and chance.random() < 0.5:
        return chance.randrange(-(2**40), 2**40)
    return chance.choice(kind)


def made(chance: random.Random) -> list[tuple]:
    kinds = [chance.choice(KINDS) for _ in range(chance.randrange(1, 6))]
    rows = [tuple(value(chance, kind) for kind in kinds) for _ in range(chance.randrange(1, 200))]
    if chance.random() < 0.3:
        # The types change long after the first batch.
        plain = tuple(1 for _ in kinds)
        rows = [plain] * chance.choice([4095, 4096, 9000]) + rows
    return rows


def inserted(create_sql: str, rows: list[tuple], width: int) -> list[tuple]:
    connection = sqlite3.connect(":memory:")
    connection.executescript(create_sql)
    connection.executemany(f"INSERT INTO t VALUES ({','.join('?' * width)})", rows)
    return stored(connection, width)


def stored(connection: sqlite3.Connection, width: int) -> list[tuple]:
    both = ",".join(f"c{at}, typeof(c{at})" for at in range(width))
    return connection.execute(f"SELECT {both} FROM t ORDER BY rowid").fetchall()


@pytest.mark.parametrize("seed", range(60))
def test_rows_are_stored_as_sqlite3_stores_them(tmp_path, seed):
    chance = random.Random(seed)
    rows = made(chance)
    width = len(rows[0])
    names = [f"c{at}" for at in range(width)]
    if chance.random() < 0.5:
        source, columns = iter(rows), names
    else:
        # A dict may lack keys, and have them in any order; the first has all of them.
        source, columns = [dict(zip(names, rows[0]))], None
        for row in rows[1:]:
            items = [(name, part) for name, part in zip(names, row) if part is not None]
            source.append(dict(chance.sample(items, len(items))))
    options = {"strict": chance.random() < 0.3, "threads": chance.randrange(1, 4)}
    db = tmp_path / "a.db"
    report = lp.load(db, source, table="t", columns=columns, **options)
    assert report.rows_loaded == len(rows)
    with sqlite3.connect(db) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        assert stored(connection, width) == inserted(report.create_sql, rows, width)


@pytest.mark.parametrize("seed", range(20))
def test_frames_are_stored_as_sqlite3_stores_their_rows(tmp_path, seed):
    chance = random.Random(seed)
    kinds = [(INTEGERS, polars.Int64), (REALS, polars.Float64), (TEXTS, polars.String)]
    chosen = [chance.choice(kinds) for _ in range(chance.randrange(1, 6))]
    count = chance.choice([1, 50, 20_000])
    frame = polars.DataFrame(
        {
            f"c{at}": polars.Series([value(chance, kind) for _ in range(count)], dtype=dtype)
            for at, (kind, dtype) in enumerate(chosen)
        }
    )
    db = tmp_path / "a.db"
    key = {"uuid7": "made"} if chance.random() < 0.3 else {}
    report = lp.load(db, frame, table="t", index="c0", unique=() if not key else "made", **key)
    with sqlite3.connect(db) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        if not key:
            expected = inserted(report.create_sql, frame.rows(), len(chosen))
            assert stored(connection, len(chosen)) == expected
        assert report.rows_loaded == count
