"""A DynamoDB-compatible database for development and tests.

    import stator_db
    with stator_db.start() as server:
        boto3.client("dynamodb", **server.arguments())

With pytest, the fixtures ``stator`` and ``stator_fork`` do that; see stator_db.pytest_plugin.
"""

import atexit
import json
import os
import re
import secrets
import subprocess
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path

__all__ = ["Fork", "Server", "StatorError", "binary", "start"]

START_TIMEOUT = 30  # seconds


class StatorError(Exception):
    """An error of the API. Its code is such as ResourceNotFoundException."""

    def __init__(self, operation, code, message):
        super().__init__(f"{operation}: {code}: {message}")
        self.operation, self.code, self.message = operation, code, message


def binary():
    """Returns the path of the binary: that of STATOR_BINARY, or that of this package."""
    path = os.environ.get("STATOR_BINARY")
    if path:
        return path
    name = "stator.exe" if os.name == "nt" else "stator"
    path = Path(__file__).parent / "bin" / name
    if not path.exists():
        raise FileNotFoundError(
            "stator_db has no binary for this platform: install a wheel, or set STATOR_BINARY to the path of a stator"
        )
    return str(path)


class Database:
    """A database at a URL."""

    def __init__(self, endpoint_url):
        self.endpoint_url = endpoint_url

    def environment(self):
        """Returns the environment by which AWS SDKs find the database."""
        return {
            "AWS_ENDPOINT_URL_DYNAMODB": self.endpoint_url,
            "AWS_ENDPOINT_URL_DYNAMODB_STREAMS": self.endpoint_url,
            "AWS_DEFAULT_REGION": os.environ.get("AWS_DEFAULT_REGION", "us-east-1"),
            "AWS_ACCESS_KEY_ID": os.environ.get("AWS_ACCESS_KEY_ID", "stator"),
            "AWS_SECRET_ACCESS_KEY": os.environ.get("AWS_SECRET_ACCESS_KEY", "stator"),
        }

    def arguments(self):
        """Returns the arguments of boto3.client and boto3.resource for the database."""
        values = self.environment()
        return {
            "endpoint_url": self.endpoint_url,
            "region_name": values["AWS_DEFAULT_REGION"],
            "aws_access_key_id": values["AWS_ACCESS_KEY_ID"],
            "aws_secret_access_key": values["AWS_SECRET_ACCESS_KEY"],
        }

    def send(self, operation, **members):
        """Sends a request of the API, such as send("ListTables"), without boto3."""
        target = operation if "." in operation else "DynamoDB_20120810." + operation
        now = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
        request = urllib.request.Request(
            self.endpoint_url,
            data=json.dumps(members).encode(),
            headers={
                "Content-Type": "application/x-amz-json-1.0",
                "X-Amz-Target": target,
                "X-Amz-Date": now,
                "Authorization": "AWS4-HMAC-SHA256 "
                f"Credential=stator/{now[:8]}/us-east-1/dynamodb/aws4_request, SignedHeaders=host, Signature=0",
            },
        )
        try:
            with _opener.open(request) as reply:
                return json.loads(reply.read() or b"{}")
        except urllib.error.HTTPError as error:
            text = error.read()
            try:
                fault = json.loads(text)
            except ValueError:
                fault = {"message": text.decode(errors="replace")}
            code = str(fault.get("__type", error.code)).rpartition("#")[2]
            raise StatorError(operation, code, fault.get("message", fault.get("Message", ""))) from None

    def fork(self, name=None):
        """Makes a copy-on-write database of this one, in milliseconds whatever its size."""
        name = name or "py-" + secrets.token_hex(8)
        made = self.send("Stator.CreateFork", ForkName=name)["Fork"]
        return Fork(self, name, made.get("ForkOf"))


# Proxies of the environment are not for a server on this machine.
_opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def _server_url(endpoint_url, fork):
    """Returns the URL of the server at an endpoint, which may be that of a fork: empty for the server itself."""
    parts = urllib.parse.urlsplit(endpoint_url)
    host, path = parts.netloc, parts.path.rstrip("/")
    if fork and path.lower().endswith("/fork/" + fork):
        path = path[: -len("/fork/" + fork)]
    if fork and parts.hostname == fork + ".localhost":
        host = host[host.lower().index(fork + ".localhost") + len(fork) + 1 :]
    return f"{parts.scheme}://{host}{path}"


class Fork(Database):
    """A copy-on-write database. of is the name of the fork that it was made of; empty for none."""

    def __init__(self, base, name, of=None):
        self.server = Database(_server_url(base.endpoint_url, of))
        super().__init__(f"{self.server.endpoint_url}/fork/{name}")  # a path names one fork
        self.base, self.name = base, name

    def remove(self):
        """Drops the fork."""
        try:
            self.server.send("Stator.DeleteFork", ForkName=self.name)
        except StatorError as error:
            if error.code != "ResourceNotFoundException":  # else it was dropped already, as it was not used
                raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.remove()


class Server(Database):
    """A server that this process has started."""

    def __init__(self, process, endpoint_url):
        super().__init__(endpoint_url)
        self.process = process
        atexit.register(self.stop)

    def stop(self):
        """Ends the server."""
        atexit.unregister(self.stop)
        if self.process.poll() is None:
            self.process.terminate()
        self.process.wait()
        self.process.stdin.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()


def _discard(log):
    while log.read(1 << 16):
        pass


def _arguments(args):
    """Returns the arguments of stator serve, with which forks are kept while a debugger waits."""
    args = args or ("--in-memory",)
    if re.search(r"(^| )--forks[ =]0( |$)", " ".join(args)):  # which is not combined with flags about forks
        return args
    return ("--fork-idle", "24h", *args)


def start(*args, port=0, host="127.0.0.1"):
    """Starts a server with arguments of ``stator serve``; without any it is in memory."""
    command = [binary(), "serve", "--stop-with-stdin", "--addr", f"{host}:{port}", *_arguments(args)]
    # The pipe to its standard input ends with this process, even if that is killed, and then the server stops.
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    timer = threading.Timer(START_TIMEOUT, process.kill)
    timer.start()
    log, endpoint = "", None
    for line in process.stderr:
        log += line
        found = re.match(r"stator listens on (\S+)", line)
        endpoint = found[1] if found else endpoint
        if endpoint and line.startswith("data is in "):
            break
    else:
        timer.cancel()
        process.wait()
        raise RuntimeError(f"cannot start stator: it ended with exit code {process.returncode}\n{log}")
    timer.cancel()
    # The rest of its log is read, or the server would wait once the pipe is full.
    threading.Thread(target=_discard, args=(process.stderr,), daemon=True).start()
    return Server(process, endpoint)
