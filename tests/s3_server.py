"""A real S3 server, versitygw, for `shards_s3.py`: its objects are files, so SQLite can judge parts without us.

`VERSITYGW` names the server. Requests are signed here, by the rules of AWS (signature version 4), and not
by the code under test.
"""

import datetime
import hashlib
import hmac
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
import xml.etree.ElementTree

REGION = "us-east-1"
BUCKET = "bucket"
READY_SECONDS_MAX = 30


def free_port():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


def wait_for(is_so, what):
    end = time.monotonic() + READY_SECONDS_MAX
    while not is_so():
        if time.monotonic() > end:
            sys.exit(f"{what}: not within {READY_SECONDS_MAX} s")
        time.sleep(0.05)


class Keys:
    """Names of an account, and the environment that gives them to a client."""

    def __init__(self, access, secret):
        self.access, self.secret = access, secret

    def environment(self, server):
        return {
            "AWS_ACCESS_KEY_ID": self.access,
            "AWS_SECRET_ACCESS_KEY": self.secret,
            "AWS_REGION": REGION,
            "AWS_ENDPOINT": server.url,
            "AWS_ALLOW_HTTP": "true",
        }


class Server:
    """The server, with one bucket and an account that may only read."""

    def __init__(self, program, folder):
        self.program, self.folder = program, folder
        self.data = folder / "data"
        self.data.mkdir()
        (folder / "accounts").mkdir()
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.root, self.reader = Keys("root-key", "root-secret"), Keys("reader-key", "reader-secret")
        self.process = None
        self.start()
        self.make_account()

    def start(self):
        log = open(self.folder / "server.log", "ab")
        self.process = subprocess.Popen(
            [self.program, "--access", self.root.access, "--secret", self.root.secret, "--port",
             f"127.0.0.1:{self.port}", "--iam-dir", str(self.folder / "accounts"), "--quiet",
             "posix", str(self.data)], stdout=log, stderr=log)
        wait_for(self.is_ready, "the server answers")

    def is_ready(self):
        try:
            return self.ask("GET", "/")[0] == 200
        except OSError:
            return False

    def make_account(self):
        assert self.ask("PUT", f"/{BUCKET}")[0] == 200
        made = subprocess.run(
            [self.program, "admin", "--access", self.root.access, "--secret", self.root.secret, "--endpoint-url", self.url,
             "create-user", "--access", self.reader.access, "--secret", self.reader.secret, "--role", "user"],
            capture_output=True, text=True)
        assert made.returncode == 0, made.stdout + made.stderr
        policy = (
            '{"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Principal": {"AWS": ["%s"]}, '
            '"Action": ["s3:GetObject", "s3:ListBucket"], "Resource": ["arn:aws:s3:::%s", "arn:aws:s3:::%s/*"]}]}'
        )
        policy = (policy % (self.reader.access, BUCKET, BUCKET)).encode()
        status, body = self.ask("PUT", f"/{BUCKET}", {"policy": ""}, policy)
        assert status in (200, 204), body

    def signal(self, number):
        os.kill(self.process.pid, number)

    def stop(self):
        self.signal(signal.SIGCONT)
        self.process.kill()
        self.process.wait()

    def ask(self, method, path, query=None, body=b"", keys=None):
        """Status and body of a signed request."""
        keys = keys or self.root
        text = urllib.parse.urlencode(sorted((query or {}).items()), quote_via=urllib.parse.quote)
        path = urllib.parse.quote(path)
        time_text = datetime.datetime.now(datetime.timezone.utc).strftime("%Y%m%dT%H%M%SZ")
        digest = hashlib.sha256(body).hexdigest()
        headers = {"host": f"127.0.0.1:{self.port}", "x-amz-content-sha256": digest, "x-amz-date": time_text}
        names = ";".join(headers)
        lines = "".join(f"{name}:{value}\n" for name, value in headers.items())
        scope = f"{time_text[:8]}/{REGION}/s3/aws4_request"
        asked = hashlib.sha256("\n".join([method, path, text, lines, names, digest]).encode()).hexdigest()
        key = f"AWS4{keys.secret}".encode()
        for word in scope.split("/"):
            key = hmac.digest(key, word.encode(), "sha256")
        signature = hmac.digest(key, f"AWS4-HMAC-SHA256\n{time_text}\n{scope}\n{asked}".encode(), "sha256").hex()
        headers["authorization"] = (
            f"AWS4-HMAC-SHA256 Credential={keys.access}/{scope}, SignedHeaders={names}, Signature={signature}"
        )
        url = f"{self.url}{path}" + (f"?{text}" if text else "")
        request = urllib.request.Request(url, data=body or None, method=method, headers=headers)
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return answer.status, answer.read()
        except urllib.error.HTTPError as error:
            return error.code, error.read()

    def _list(self, query, tag):
        status, body = self.ask("GET", f"/{BUCKET}", query)
        assert status == 200, body
        root = xml.etree.ElementTree.fromstring(body)
        space = root.tag.split("}")[0] + "}" if root.tag.startswith("{") else ""
        assert root.findtext(f"{space}IsTruncated") in (None, "false"), "the list has several pages"
        return sorted(found.findtext(f"{space}Key") for found in root.iter(f"{space}{tag}"))

    def objects(self, prefix):
        return self._list({"list-type": "2", "prefix": prefix}, "Contents")

    def uploads(self, prefix):
        """Keys of uploads that were not finished."""
        return self._list({"uploads": "", "prefix": prefix}, "Upload")

    def file(self, key):
        """File of an object."""
        return self.data / BUCKET / key
