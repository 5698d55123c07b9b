"""Code of a user, for the type checkers: every line must check, and no type may be unknown.

Not run. `typed` holds what a checker has to make of an expression.
"""

from __future__ import annotations

from typing import Any

import leafpress as lp
from typing_extensions import assert_type


def loads() -> None:
    report = lp.load("app.db", [{"id": 1}], table="people", pk="id", index=["name NOCASE"])
    assert_type(report, lp.Report)
    assert_type(report.rows_loaded, int)
    planned = lp.load("app.db", "a.csv", dry_run=True)
    assert_type(planned, lp.DryRun)


def loads_or_not(is_trial: bool, options: lp.WriterOptions) -> None:
    either = lp.load("app.db", "a.csv", if_exists="append", on_error="skip", dry_run=is_trial)
    assert_type(either, "lp.Report | lp.DryRun")
    limits: lp.CheckpointLimits = {"slice_frames": 1000}
    options["checkpoint"] = limits
    lp.Writer("app.db", **options).close()


def writes() -> None:
    with lp.Writer("app.db", profile="durable", shared=True) as writer:
        assert_type(writer.execute("INSERT INTO t VALUES (?)", (1,)).lastrowid, int)
        ticket = writer.submit("INSERT INTO t VALUES (:x)", {"x": 1})
        assert_type(ticket.result(), lp.Executed)
        assert_type(writer.insert_many("t", [(1,), (2,)]), int)
        with writer.transaction() as tx:
            assert_type(tx.execute("SELECT count(*) FROM t").fetchone(), "tuple[Any, ...] | None")


async def writes_later() -> None:
    async with lp.AsyncWriter("app.db") as writer:
        assert_type(await writer.execute("INSERT INTO t VALUES (?)", (1,)), lp.Executed)
        await writer.execute("DELETE FROM t", call_limit=0.5)
        assert_type(await writer.insert_many("t", [{"x": 1}]), int)
        async with writer.transaction() as tx:
            await tx.execute("DELETE FROM t")
        async with writer.reader() as reader:
            assert_type(await reader.execute("SELECT 1"), lp.Result)
        assert_type(writer.interrupt(), bool)


def fails() -> None:
    try:
        lp.verify("app.db")
    except lp.IntegrityError as error:
        assert_type(error.kind, str)
        assert_type(error.on_disk, "str | None")
        assert_type(error.line, "int | None")


def measures() -> None:
    report = lp.bench("writer", quick=True)
    assert_type(report.data, "dict[str, Any]")
    assert_type(report.page, str)
