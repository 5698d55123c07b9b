"""Servers for tests: started on a port that the system chooses, on this machine only, and ended
again whatever happens."""

import contextlib
import http.client
import os
import signal
import socket
import subprocess
import sys
import threading

LIMIT_S = 40

APP = '''
import os
from contextlib import asynccontextmanager

import fastapi
import leafpress as lp

writer = lp.AsyncWriter(os.environ["DB"], shared=True, max_delay=float(os.environ["DELAY"]))
INSERT = "INSERT INTO t VALUES (?)"


@asynccontextmanager
async def lifespan(app):
    async with writer:
        yield


app = fastapi.FastAPI(lifespan=lifespan)
hasty = set()


@app.post("/{number}")
async def put(number: int):
    await writer.execute(INSERT, (number,))
    return number


@app.post("/hasty/{number}")
async def put_hastily(number: int):
    """Answers before the commit: the control, which loses."""
    call = writer.execute(INSERT, (number,))
    hasty.add(call)
    call.add_done_callback(hasty.discard)
    return number


@app.get("/stats")
async def stats():
    return writer.stats()
'''

WSGI = '''
import os
import threading

import leafpress as lp

INSERT = "INSERT INTO t VALUES (?)"
preloaded = lp.Writer(os.environ["DB"])
own, lock = None, threading.Lock()


def writer():
    global own
    with lock:
        if own is None:
            own = lp.Writer(os.environ["DB"], shared=True)
        return own


def app(environ, start_response):
    kind, _, number = environ["PATH_INFO"].strip("/").rpartition("/")
    status, text = "200 OK", number
    try:
        (preloaded if kind == "preloaded" else writer()).execute(INSERT, (int(number),))
    except lp.Error as error:
        status, text = "500 Error", f"{error.kind}: {error}"
    start_response(status, [("Content-Type", "text/plain")])
    return [text.encode()]
'''


@contextlib.contextmanager
def server(folder, database, *command, delay=0.0):
    """Runs `python -m command…`, in which FD stands for the socket's descriptor.

    Gives the process and its port."""
    (folder / "app.py").write_text(APP)
    (folder / "wsgi.py").write_text(WSGI)
    with socket.create_server(("127.0.0.1", 0), backlog=256) as listening:
        port, fd = listening.getsockname()[1], listening.fileno()
        environment = {**os.environ, "DB": str(database), "DELAY": str(delay)}
        arguments = [part.replace("FD", str(fd)) for part in command]
        with open(folder / "log", "ab") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", *arguments], cwd=folder, env=environment, pass_fds=[fd],
                stdout=log, stderr=log, start_new_session=True,
            )
    try:
        # A server that hangs shall not hang the tests; its workers are in its group.
        limit = threading.Timer(LIMIT_S, end, [process])
        limit.daemon = True
        limit.start()
        yield process, port
    finally:
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(10)
        end(process)
        limit.cancel()


def end(process):
    """Kills a server and its workers."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def request(port, path, method="POST"):
    """The status and the text of an answer."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=LIMIT_S)
    with contextlib.closing(connection):
        connection.request(method, path)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()


class Clients:
    """Threads that send numbers to a server, and note those that it has answered."""

    def __init__(self, port, prefix="/", clients=16, each=10_000, first=0):
        self.port, self.prefix, self.each = port, prefix, each
        self.answered, self.refused, self.broken = set(), [], []
        starts = [first + number * each for number in range(clients)]
        self.threads = [threading.Thread(target=self._send, args=[start]) for start in starts]
        for thread in self.threads:
            thread.start()

    def _send(self, first):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=LIMIT_S)
        try:
            for number in range(first, first + self.each):
                connection.request("POST", f"{self.prefix}{number}")
                answer = connection.getresponse()
                text = answer.read().decode()
                if answer.status == 200:
                    self.answered.add(number)
                else:
                    self.refused.append(text)
        except (OSError, http.client.HTTPException) as error:
            self.broken.append(error)
        finally:
            connection.close()

    def wait(self):
        """Waits for the end of all clients."""
        for thread in self.threads:
            thread.join(LIMIT_S)
            assert not thread.is_alive()
        return self
