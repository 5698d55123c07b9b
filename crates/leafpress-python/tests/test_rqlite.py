"""The Writer on a cluster of rqlite, played by a server over sqlite3."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import leafpress
import pytest

ROWS = "SELECT typeof(a), a FROM t ORDER BY rowid"


class Node:
    """One node, whose database is in memory."""

    def __init__(self) -> None:
        self.database = sqlite3.connect(":memory:", check_same_thread=False, isolation_level=None)
        # 'subsec' is younger than the SQLite of some Pythons.
        self.database.create_function("unixepoch", -1, lambda *_: time.time())
        self.requests = 0
        self.credentials: set[str | None] = set()
        self._lock = threading.Lock()
        node = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                node.credentials.add(self.headers["Authorization"])
                body = self.rfile.read(int(self.headers["Content-Length"]))
                answer = json.dumps({"results": node.carry_out(json.loads(body))}).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, *_: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.place = f"127.0.0.1:{self.server.server_port}"

    def carry_out(self, statements: list[Any]) -> list[dict[str, Any]]:
        """Carries out statements as one transaction."""
        with self._lock:
            self.requests += 1
            results: list[dict[str, Any]] = []
            self.database.execute("BEGIN")
            for statement in statements:
                sql, *values = [statement] if isinstance(statement, str) else statement
                try:
                    done = self.database.execute(sql, values)
                except sqlite3.Error as error:
                    self.database.execute("ROLLBACK")
                    return [*results, {"error": str(error)}]
                if done.description is None:
                    counts = {"rows_affected": max(done.rowcount, 0), "last_insert_id": done.lastrowid or 0}
                    results.append(counts)
                else:
                    columns = [column[0] for column in done.description]
                    results.append({"columns": columns, "values": done.fetchall()})
            self.database.execute("COMMIT")
            return results

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        with self._lock:
            return self.database.execute(sql).fetchall()


@pytest.fixture
def node() -> Iterator[Node]:
    node = Node()
    thread = threading.Thread(target=node.server.serve_forever)
    thread.start()
    yield node
    node.server.shutdown()
    thread.join()
    node.server.server_close()


def test_values_arrive_as_they_are(node: Node) -> None:
    values = [1, 2**60, 0.5, float("inf"), "x'00ff'", "text", b"", b"\0\xff", None]
    with leafpress.Writer(f"rqlite://{node.place}") as writer:
        writer.execute_batch("CREATE TABLE t(a); CREATE TABLE u(a UNIQUE, b)")
        for value in values:
            assert writer.execute("INSERT INTO t VALUES (?)", (value,)).rowcount == 1
        assert writer.insert_many("u", [{"a": 1, "b": b"x"}, {"a": 2, "b": "y"}]) == 2
        assert writer.execute("UPDATE u SET b = :b WHERE a = :a", {"a": 1, "b": b"z"}).rowcount == 1
        with pytest.raises(leafpress.IntegrityError, match="UNIQUE"):
            writer.execute("INSERT INTO u VALUES (?, ?)", (1, 3))
    assert [row[1] for row in node.rows(ROWS)] == values
    assert node.rows("SELECT a, b FROM u") == [(1, b"z"), (2, "y")]


def test_calls_that_wait_share_requests(node: Node) -> None:
    async def insert() -> None:
        async with leafpress.AsyncWriter(f"rqlite://{node.place}") as writer:
            await writer.execute("CREATE TABLE t(a)")
            insert = "INSERT INTO t VALUES (?)"
            await asyncio.gather(*(writer.execute(insert, (number,)) for number in range(400)))

    asyncio.run(insert())
    assert sorted(row[1] for row in node.rows(ROWS)) == list(range(400))
    assert node.requests < 100, "one request each would share nothing"


def test_credentials_are_sent_and_not_shown(node: Node) -> None:
    url = f"rqlite://ann:se@cret@{node.place}?level=weak"
    for shown in (leafpress.Writer(url), leafpress.AsyncWriter(url)):
        assert shown.path == f"rqlite://{node.place}"
        assert "cret" not in repr(shown)
    with leafpress.Writer(f"rqlite://ann:se%40cret@{node.place}") as writer:
        writer.execute("CREATE TABLE t(a)")
    assert node.credentials == {"Basic YW5uOnNlQGNyZXQ="}


def test_what_a_cluster_cannot_do_is_refused(node: Node) -> None:
    url = f"rqlite://{node.place}"
    with leafpress.Writer(url, queue_capacity=64) as writer:
        writer.execute("CREATE TABLE t(a)")
        with pytest.raises(leafpress.NotSupportedError, match="insert_many"):
            writer.executemany("INSERT INTO t VALUES (?)", [(1,), (2,)])
        with pytest.raises(leafpress.NotSupportedError, match="closure"), writer.transaction() as tx:
            tx.execute("INSERT INTO t VALUES (1)")
        with pytest.raises(leafpress.ProgrammingError, match="no readers"):
            writer.query("SELECT 1")
        with pytest.raises(leafpress.NotSupportedError, match="leafpress queue"):
            leafpress.Queue(writer, "mail")
    with pytest.raises(leafpress.ProgrammingError, match="no option 'profile'"):
        leafpress.Writer(url, profile="durable")
    with pytest.raises(leafpress.NotSupportedError, match="leafpress load"):
        leafpress.load(url, [{"a": 1}], table="t")
    with pytest.raises(leafpress.ProgrammingError, match="URL of the cluster is wrong"):
        leafpress.Writer("rqlite://")
    assert node.rows(ROWS) == []
