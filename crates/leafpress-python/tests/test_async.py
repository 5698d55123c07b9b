"""The Writer from tasks of asyncio. The judge is Python's sqlite3."""

import asyncio
import contextlib
import functools
import gc
import inspect
import sqlite3
import sys
import threading
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import anyio
import pytest

import leafpress as lp
from leafpress import _async

uvloop = pytest.importorskip("uvloop") if sys.platform != "win32" else None

LIMIT_S = 20
TABLE = "CREATE TABLE t(a INTEGER PRIMARY KEY, b)"
async def asynchronous_rows():
    yield {"b": 1}


INSERT = "INSERT INTO t(b) VALUES (?)"


@pytest.fixture(params=["asyncio", "uvloop"])
def run(request):
    """Runs a coroutine in an event loop, within the limit."""
    make = asyncio.new_event_loop if request.param == "asyncio" else uvloop.new_event_loop

    def run(coroutine):
        loop = make()
        try:
            return loop.run_until_complete(asyncio.wait_for(coroutine, LIMIT_S))
        finally:
            loop.run_until_complete(loop.shutdown_default_executor())
            loop.close()

    return run


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "a.db"
    with lp.Writer(path) as writer:
        writer.execute_batch(TABLE)
    return path


def rows_in(path, sql="SELECT * FROM t ORDER BY 1"):
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(sql).fetchall()


def test_calls_are_answered(run, path):
    async def main():
        async with lp.AsyncWriter(path) as writer:
            done = await writer.execute(INSERT, ("x",))
            assert done == (1, 1) and rows_in(path) == [(1, "x")]
            await writer.execute_batch("INSERT INTO t(b) VALUES (1); INSERT INTO t(b) VALUES (2)")
            assert await writer.insert_many("t", ({"b": n} for n in (3, 4))) == 2
            assert await writer.insert_many("t", [(9, 5)]) == 1
            with pytest.raises(lp.ProgrammingError, match="asynchronous"):
                await writer.insert_many("t", (row async for row in asynchronous_rows()))
            found = await writer.query("SELECT b FROM t WHERE a > :a", {"a": 1})
            assert found.fetchall() == [(1,), (2,), (3,), (4,), (5,)]
            await writer.maintain("optimize")
            await writer.backup(path.with_name("copy.db"))
            assert writer.in_force()["profile"] == "durable"
        assert "closed" in writer.stopped
        with pytest.raises(lp.ProgrammingError, match="closed"):
            await writer.execute(INSERT, ("x",))

    run(main())
    assert rows_in(path) == rows_in(path.with_name("copy.db"))


def test_it_opens_at_the_first_call(run, path):
    async def main():
        writer = lp.AsyncWriter(path, profile="relaxed")
        assert writer.stopped is None
        done = await asyncio.gather(*(writer.execute(INSERT, (n,)) for n in range(50)))
        assert sorted(rowid for _, rowid in done) == list(range(1, 51))
        assert writer.in_force()["profile"] == "relaxed"
        await writer.close()
        wrong = lp.AsyncWriter(path, profile="fast")
        for _ in range(2):
            with pytest.raises(lp.ProgrammingError, match="no profile"):
                await wrong.execute(INSERT, (1,))

    run(main())
    assert sorted(b for _, b in rows_in(path)) == list(range(50))


def test_errors_reach_their_own_task(run, path):
    async def main():
        async with lp.AsyncWriter(path) as writer:
            calls = [writer.execute("INSERT INTO t VALUES (?, 1)", (n // 2,)) for n in range(100)]
            done = await asyncio.gather(*calls, return_exceptions=True)
            assert [isinstance(it, lp.IntegrityError) for it in done] == [False, True] * 50
            for wrong in ((), (1, 2), {"x": 1}):
                with pytest.raises(lp.ProgrammingError):
                    await writer.execute(INSERT, wrong)

    run(main())
    assert len(rows_in(path)) == 50


def test_one_wake_up_for_each_commit(run, path):
    async def main():
        async with lp.AsyncWriter(path) as writer:
            await writer.execute(INSERT, (0,))
            side = _async.side_of(asyncio.get_running_loop())
            drains, before = side.drains(), writer.stats()["commits"]

            async def insert():
                for number in range(20):
                    await writer.execute(INSERT, (number,))

            await asyncio.gather(*(insert() for _ in range(500)))
            commits = writer.stats()["commits"] - before
            return side.drains() - drains, commits

    drains, commits = run(main())
    print(f"{drains} wake-ups for {commits} commits of 10,000 calls")
    assert len(rows_in(path)) == 10_001
    assert 0 < drains <= commits <= 1_000


def test_a_call_that_has_not_begun_is_taken_back(run, path):
    async def main():
        async with lp.AsyncWriter(path) as writer:
            async with writer.transaction() as tx:
                await tx.execute(INSERT, ("inside",))
                # A task of its own: one of this task would wait for the transaction.
                calls = []

                async def outside():
                    calls.extend(writer.execute(INSERT, (n,)) for n in range(10))

                _async._around.set(())
                await outside()
                assert all(call.cancel() for call in calls[::2])
                assert not calls[0].cancel()
                with pytest.raises(asyncio.TimeoutError):
                    await asyncio.wait_for(writer.execute(INSERT, ("late",)), 0.05)
            done = await asyncio.gather(*calls, return_exceptions=True)
            assert [isinstance(it, asyncio.CancelledError) for it in done] == [True, False] * 5
            assert writer.stats()["calls_cancelled"] == 6

    run(main())
    assert [b for _, b in rows_in(path)] == ["inside", 1, 3, 5, 7, 9]


ENDLESS = """WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)
    INSERT INTO t(b) SELECT i FROM n"""


def test_a_cancelled_call_is_stopped_while_it_runs(run, path):
    async def main():
        async with lp.AsyncWriter(path) as writer:
            for begin in (writer.execute, writer.execute_batch):
                with pytest.raises(asyncio.TimeoutError):
                    await asyncio.wait_for(begin(ENDLESS), 0.2)
                await asyncio.wait_for(writer.execute(INSERT, ("next",)), LIMIT_S)

    run(main())
    assert [b for _, b in rows_in(path)] == ["next", "next"]


def test_a_call_that_is_cancelled_while_it_waits_for_a_lock_is_not_carried_out(run, path):
    async def main():
        async with lp.AsyncWriter(path) as writer:
            await writer.execute(INSERT, ("before",))
            other = sqlite3.connect(path, isolation_level=None)
            other.execute("BEGIN IMMEDIATE")
            # The second one is run in a transaction of the writer's own, the first by itself.
            for call in (writer.execute(INSERT, ("no",)), writer.insert_many("t", [{"b": "no"}])):
                with pytest.raises(asyncio.TimeoutError):
                    await asyncio.wait_for(call, 0.2)
            other.execute("ROLLBACK")
            other.close()
            await writer.execute(INSERT, ("after",))

    run(main())
    assert [b for _, b in rows_in(path)] == ["before", "after"]


def test_a_transaction_is_all_or_nothing(run, path):
    async def main():
        async with lp.AsyncWriter(path) as writer:
            async with writer.transaction() as tx:
                done = await tx.execute("INSERT INTO t(b) VALUES (1), (2) RETURNING a")
                assert done.fetchall() == [(1,), (2,)]
                await tx.execute_batch("DELETE FROM t WHERE a = 1")
                assert await tx.insert_many("t", [{"b": 3}]) == 1
                assert await tx.insert_many("t", [(9, 4)]) == 1
                with pytest.raises(lp.IntegrityError):
                    await tx.execute("INSERT INTO t VALUES (9, 9)")
                assert rows_in(path) == []
            with pytest.raises(KeyError):
                async with writer.transaction() as tx:
                    await tx.execute("DELETE FROM t")
                    raise KeyError
            with pytest.raises(lp.Error):
                await tx.execute("SELECT 1")

            async def waits():
                async with writer.transaction() as tx:
                    await tx.execute("DELETE FROM t")
                    await asyncio.sleep(LIMIT_S)

            for wait_s in (0.1, 0.0):
                task = asyncio.create_task(waits())
                await asyncio.sleep(wait_s)
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
            await writer.execute("INSERT INTO t VALUES (10, 5)")

    run(main())
    assert rows_in(path) == [(2, 2), (3, 3), (9, 4), (10, 5)]


def test_calls_that_would_wait_for_themselves_are_refused(run, path):
    async def main():
        async with lp.AsyncWriter(path) as writer, lp.AsyncWriter(path.with_name("b.db")) as other:
            await other.execute_batch(TABLE)
            async with writer.transaction() as tx:
                for call in (
                    lambda: writer.execute("SELECT 1"),
                    lambda: writer.execute_batch("SELECT 1"),
                    lambda: writer.insert_many("t", [{"b": 1}]),
                    lambda: asyncio.wait_for(writer.insert_many("t", [{"b": 1}]), 9),
                    lambda: writer.transaction().__aenter__(),
                    lambda: writer.backup(path.with_name("copy.db")),
                    lambda: writer.maintain("optimize"),
                    writer.close,
                ):
                    with pytest.raises(lp.ProgrammingError, match="for ever"):
                        await call()
                await tx.execute(INSERT, ("inside",))
                await other.execute(INSERT, ("other",))
            await writer.execute(INSERT, ("after",))

    run(main())
    assert [b for _, b in rows_in(path)] == ["inside", "after"]


def test_a_task_that_a_transaction_has_started_calls_after_its_end(run, path):
    async def main():
        async with lp.AsyncWriter(path) as writer:
            is_over = asyncio.Event()

            async def early():
                await writer.execute(INSERT, ("early",))

            async def later():
                await is_over.wait()
                await writer.execute(INSERT, ("task",))

            async with writer.transaction() as tx:
                task = asyncio.create_task(later())
                # Else both would wait for ever.
                with pytest.raises(lp.ProgrammingError, match="outside of the block"):
                    await asyncio.gather(early())
                await tx.execute(INSERT, ("inside",))
            is_over.set()
            await task

    run(main())
    assert [b for _, b in rows_in(path)] == ["inside", "task"]


def test_calls_before_the_opening_keep_their_order(run, path):
    async def main():
        writer = lp.AsyncWriter(path.with_name("new.db"))
        made = writer.execute(TABLE)
        calls = [writer.execute(INSERT, (at,)) for at in range(20)]
        taken_back = writer.execute(INSERT, ("taken back",))
        taken_back.cancel()
        many = asyncio.ensure_future(writer.insert_many("t", [{"b": 20}]))
        await asyncio.sleep(0)
        batch = writer.execute_batch("INSERT INTO t(b) VALUES (21)")
        async with writer.transaction() as tx:
            await tx.execute(INSERT, (22,))
        await asyncio.gather(made, *calls, many, batch)
        rows = await writer.query("SELECT b FROM t ORDER BY a")
        assert [b for (b,) in rows] == list(range(23))
        await writer.close()

    run(main())


def test_an_opening_that_fails_is_told_to_each_call(run, path):
    async def main():
        writer = lp.AsyncWriter(path.with_name("no") / "app.db")
        calls = [writer.execute("SELECT 1") for _ in range(3)]
        found = await asyncio.gather(*calls, writer.open(), return_exceptions=True)
        assert [type(error) for error in found] == [type(found[0])] * 4
        assert isinstance(found[0], lp.Error)
        await writer.close()
        # Once it can be opened, it is.
        path.with_name("no").mkdir()
        waiting = writer.execute_batch(TABLE)
        await writer.close()
        await waiting

    run(main())
    assert rows_in(path.with_name("no") / "app.db") == []


def test_tasks_that_wait_for_a_reader_leave_threads_to_those_that_have_one(run, path):
    async def main():
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(2))
        async with lp.AsyncWriter(path, readers=2, reader_wait=3 * LIMIT_S) as writer:

            async def read():
                async with writer.reader() as reader:
                    await reader.execute("SELECT * FROM t")
                    await asyncio.sleep(0.01)
                    return await reader.execute("SELECT count(*) FROM t")

            queries = [writer.query("SELECT count(*) FROM t") for _ in range(12)]
            found = await asyncio.gather(*(read() for _ in range(12)), *queries)
            assert [rows.fetchall() for rows in found] == [[(0,)]] * 24

    run(main())


def test_a_reader_sees_one_state(run, path):
    async def main():
        async with lp.AsyncWriter(path) as writer:
            assert writer.interrupt() is False
            reader = writer.reader()
            with pytest.raises(lp.ProgrammingError, match="not open"):
                await reader.execute("SELECT 1")
            async with reader:
                await writer.execute(INSERT, ("later",))
                assert (await reader.execute("SELECT * FROM t")).fetchall() == []
            async with writer.reader() as reader:
                assert len((await reader.execute("SELECT * FROM t")).fetchall()) == 1

    run(main())


def test_a_call_of_asyncio_is_interrupted(run, path):
    endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"

    async def main():
        async with lp.AsyncWriter(path) as writer:
            call = writer.execute(endless)
            while not writer.interrupt():
                await asyncio.sleep(0.01)
            with pytest.raises(lp.Cancelled):
                await call

    run(main())


def test_a_call_has_its_limit(run, path):
    endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"

    async def main():
        writer = lp.AsyncWriter(path)
        for _ in range(2):  # before it is open, and after
            with pytest.raises(lp.TimedOut):
                await writer.execute(endless, call_limit=0.05)
        await writer.close()

    run(main())


def test_other_tasks_wait_for_a_transaction(run, path):
    async def main():
        async with lp.AsyncWriter(path) as writer:

            async def add():
                async with writer.transaction() as tx:
                    found = await tx.execute("SELECT count(*) FROM t")
                    await asyncio.sleep(0)
                    await tx.execute(INSERT, found.fetchone())

            await asyncio.gather(*(add() for _ in range(50)))

    run(main())
    assert [b for _, b in rows_in(path)] == list(range(50))


def test_a_forgotten_transaction_is_rolled_back(run, path):
    async def main():
        async with lp.AsyncWriter(path) as writer:
            tx = writer.transaction()
            await tx.__aenter__()
            await tx.execute(INSERT, ("never",))
            _async._around.set(())
            del tx
            await writer.execute(INSERT, ("after",))

    run(main())
    assert [b for _, b in rows_in(path)] == ["after"]


def test_event_loops_of_several_threads_use_one_writer(path):
    writer = lp.AsyncWriter(path)
    failed = []

    def thread(number):
        async def main():
            await asyncio.gather(
                *(writer.execute(INSERT, (number * 1000 + step,)) for step in range(200))
            )

        try:
            for make in (asyncio.new_event_loop, uvloop.new_event_loop):
                loop = make()
                with closing(loop):
                    loop.run_until_complete(asyncio.wait_for(main(), LIMIT_S))
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=thread, args=[number]) for number in range(4)]
    for one in threads:
        one.start()
    for one in threads:
        one.join(LIMIT_S)
    assert failed == []
    asyncio.run(writer.close())
    assert len(rows_in(path)) == 1600


def test_anyio_runs_it(path):
    async def main():
        async with lp.AsyncWriter(path) as writer, anyio.create_task_group() as group:
            for number in range(20):
                group.start_soon(lambda n=number: awaited(writer.execute(INSERT, (n,))))
            with anyio.move_on_after(0.05):
                async with writer.transaction() as tx:
                    await tx.execute(INSERT, ("never",))
                    await anyio.sleep(LIMIT_S)

    async def awaited(call):
        await call

    for use_uvloop in (False, True):
        anyio.run(main, backend="asyncio", backend_options={"use_uvloop": use_uvloop})
    assert len(rows_in(path)) == 40


def test_a_loop_that_ends_early_harms_nothing(path):
    """Calls are under way when their loop is closed; another loop uses the writer after it."""
    writer = lp.AsyncWriter(path)

    async def leave():
        return [writer.execute(INSERT, (n,)) for n in range(200)]

    async def stay():
        await writer.execute(INSERT, ("last",))
        await writer.close()

    with warnings.catch_warnings(), contextlib.suppress(asyncio.CancelledError):
        warnings.simplefilter("error")
        asyncio.run(writer.open())
        left = asyncio.run(leave())
        asyncio.run(asyncio.wait_for(stay(), LIMIT_S))
    assert len(left) == 200 and "last" in [b for _, b in rows_in(path)]


def test_calls_leave_nothing_for_the_collector(path):
    """A call and its future do not refer to each other once it is answered."""

    async def main():
        async with lp.AsyncWriter(path) as writer:
            await writer.execute(INSERT, (0,))
            gc.collect()
            gc.disable()
            try:
                await asyncio.gather(*(writer.execute(INSERT, (n,)) for n in range(1000)))
                cancelled = [writer.execute(INSERT, (n,)) for n in range(100)]
                assert any([call.cancel() for call in cancelled])
                await asyncio.wait(cancelled)
                del cancelled
                await asyncio.sleep(0)
                return gc.collect()
            finally:
                gc.enable()

    assert asyncio.run(main()) < 100


def test_the_event_loop_goes_on_while_calls_wait(path):

    async def main():
        async with lp.AsyncWriter(path, max_delay=0.05) as writer:
            calls = [writer.execute(INSERT, (n,)) for n in range(512)]
            ticks, end = 0, time.monotonic() + LIMIT_S
            while not all(call.done() for call in calls) and time.monotonic() < end:
                await asyncio.sleep(0.001)
                ticks += 1
            return ticks

    assert asyncio.run(main()) > 5


def test_a_call_without_an_event_loop_says_so(path):
    writer = lp.AsyncWriter(path)
    for call in (lambda: writer.execute(INSERT, (1,)), lambda: writer.execute_batch("SELECT 1")):
        with pytest.raises(lp.ProgrammingError, match="no event loop of asyncio runs"):
            call()
    coroutine = writer.__aenter__()
    with pytest.raises(lp.ProgrammingError, match="no event loop of asyncio runs"):
        # As under trio.
        coroutine.send(None)
    asyncio.run(writer.open())
    with pytest.raises(lp.ProgrammingError, match="a Writer"):
        writer.execute(INSERT, (1,))
    asyncio.run(writer.close())
    assert rows_in(path) == []


def test_functions_that_return_a_future_are_to_be_awaited(path):
    """A background task of Starlette runs any other function in a thread."""
    # Starlette asks so.
    is_one = inspect.iscoroutinefunction if sys.version_info >= (3, 13) else asyncio.iscoroutinefunction
    writer = lp.AsyncWriter(path)
    tx = writer.transaction()
    for function in (writer.execute, writer.execute_batch, tx.execute, tx.execute_batch):
        assert is_one(function) and is_one(functools.partial(function).func)
    background = pytest.importorskip("starlette.background")

    async def main():
        async with writer:
            tasks = background.BackgroundTasks()
            tasks.add_task(writer.execute_batch, "DELETE FROM t")
            tasks.add_task(writer.execute, INSERT, (1,))
            await tasks()

    asyncio.run(main())
    assert len(rows_in(path)) == 1


def test_parameters_are_those_of_the_call_also_before_the_opening(run, path):
    async def main():
        async with contextlib.AsyncExitStack() as stack:
            writer, row, futures = lp.AsyncWriter(path), {}, []
            stack.push_async_callback(writer.close)
            for number in range(3):
                row["x"] = number
                futures.append(writer.execute("INSERT INTO t(b) VALUES (:x)", row))
            with pytest.raises(lp.ProgrammingError, match="no value for the parameter :y"):
                writer.execute("INSERT INTO t(b) VALUES (:y)", row)
            await asyncio.gather(*futures)

    run(main())
    assert rows_in(path, "SELECT b FROM t ORDER BY a") == [(0,), (1,), (2,)]


def test_a_backup_that_is_cancelled_leaves_no_file(run, path, tmp_path):
    async def hold(writer, held, over):
        async with writer.transaction():
            held.set()
            await over.wait()

    async def main():
        held, over, threads = asyncio.Event(), asyncio.Event(), ThreadPoolExecutor()
        async with lp.AsyncWriter(path) as writer:
            asyncio.get_running_loop().set_default_executor(threads)
            holding = asyncio.create_task(hold(writer, held, over))
            await held.wait()
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(writer.backup(tmp_path / "copy.db"), 0.3)
            over.set()
            await holding
            asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor())
            threads.shutdown()

    run(main())
    assert not any(tmp_path.glob("copy.db*"))
