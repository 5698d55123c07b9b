"""The Writer and `load` on a cluster of rqlite, played by a server over sqlite3."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import leafpress
import pyarrow
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

            def do_GET(self) -> None:
                # A cluster of several nodes takes rows, and no file.
                answer = json.dumps({"nodes": [{"leader": True}, {}]}).encode()
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
    with pytest.raises(leafpress.OperationalError, match="there is a table t already"):
        leafpress.load(url, [{"a": 1}], table="t")
    with pytest.raises(leafpress.ProgrammingError, match="leave out on_conflict"):
        leafpress.load(url, [{"a": 1}], table="t", if_exists="append", on_conflict="ignore")
    with pytest.raises(leafpress.ProgrammingError, match="has no key"):
        leafpress.load(url, [{"a": 1}], table="missing", if_exists="ignore")
    with pytest.raises(leafpress.ProgrammingError, match="no name"):
        leafpress.load(url, [{"a": 1}], if_exists="append", create="CREATE TABLE t(a)")
    with pytest.raises(leafpress.ProgrammingError, match="URL of the cluster is wrong"):
        leafpress.Writer("rqlite://")
    assert node.rows(ROWS) == []


def test_rows_files_and_frames_are_loaded(node: Node, tmp_path: Path) -> None:
    url = f"rqlite://ann:secret@{node.place}"
    report = leafpress.load(url, [{"id": 1, "a": "x'00'"}, {"id": 2, "a": None}], table="t", pk="id")
    assert (report.rows_loaded, report.database) == (2, f"rqlite://{node.place}")
    (tmp_path / "u.csv").write_text("id,a\n1,x\n2,y\n")
    assert leafpress.load(url, tmp_path / "u.csv", index="a").table == "u"
    frame = pyarrow.table({"id": [2, 3], "a": ["new", "z"]})
    assert leafpress.load(url, frame, table="t", if_exists="upsert").rows_loaded == 2
    assert node.rows("SELECT id, a FROM t ORDER BY id") == [(1, "x'00'"), (2, "new"), (3, "z")]
    assert node.rows("SELECT id, a FROM u INDEXED BY u_a") == [(1, "x"), (2, "y")]
    tables = "SELECT count(*) FROM sqlite_schema WHERE name LIKE '!_leafpress!_load!_%' ESCAPE '!'"
    assert node.rows(tables) == [(0,)]


def test_a_load_that_fails_leaves_the_tables_as_they_were(node: Node, tmp_path: Path) -> None:
    url = f"rqlite://{node.place}"
    leafpress.load(url, [{"id": 1, "n": 5}], table="t", create="CREATE TABLE t(id INTEGER PRIMARY KEY, n INTEGER)")
    with pytest.raises(leafpress.IntegrityError):
        leafpress.load(url, [{"id": 2, "n": 6}, {"id": 1, "n": 7}], table="t", if_exists="append")
    with pytest.raises(leafpress.ProgrammingError, match="primary_key|pk"):
        leafpress.load(url, [{"id": 2, "n": 6}], table="t", if_exists="append", pk="n")

    def rows() -> Iterator[dict[str, int]]:
        yield {"id": 2, "n": 6}
        raise KeyError("of the caller")

    with pytest.raises(KeyError, match="of the caller"):
        leafpress.load(url, rows(), table="t", if_exists="append")

    def stop(_: leafpress.Progress) -> None:
        raise RuntimeError("enough")

    many = ({"id": number, "n": number} for number in range(2, 200_000))
    with pytest.raises(RuntimeError, match="enough"):
        leafpress.load(url, many, table="t", if_exists="append", progress=stop)
    rejects = tmp_path / "rejects.ndjson"
    skips: dict[str, Any] = {"if_exists": "append", "on_error": "skip", "rejects": rejects}
    report = leafpress.load(url, [{"id": 3, "n": 8}, {"id": 4, "n": [1]}], table="t", dry_run=True, if_exists="append")
    assert report.rows_read == 2
    assert node.rows("SELECT id, n FROM t") == [(1, 5)]
    report = leafpress.load(url, [{"id": 3, "n": 8}, {"id": "x", "n": 9}], table="t", **skips)
    assert (report.rows_loaded, report.rows_rejected, rejects.exists()) == (1, 1, True)
    assert node.rows("SELECT id, n FROM t") == [(1, 5), (3, 8)]
    assert node.rows("SELECT name FROM sqlite_schema WHERE name LIKE '%load%'") == []
