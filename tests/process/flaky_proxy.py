"""A loopback HTTP proxy before an S3 server that loses requests and answers as it is told."""

from __future__ import annotations

import http.client
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Literal
from urllib.parse import urlsplit

CLIENT_TIMEOUT_S = 1
"""What a client of this proxy should have as its timeout."""
LATE_S = 1.5
"""How long a late request is held back: past the client's timeout."""

Fault = Literal[
    "500 after", "503 after", "reset after", "cut after", "silence after",
    "503 before", "409 before", "412 before", "403 before", "reset before", "late",
]  # fmt: skip
"""A status, a reset, an answer cut short or none at all, after or before the request took effect; "late": it takes effect after the
client gave up.
"""


@dataclass(slots=True)
class Faults:
    """What happens to the next requests that match, one fault each; nothing happens to the others."""

    upstream: str
    """The endpoint of the server behind it."""
    matches: Callable[[str, str], bool] = lambda _method, _path: False
    """Given the method and the path of a request."""
    coming: list[Fault] = field(default_factory=list)
    seen: list[Fault] = field(default_factory=list)
    late: list[threading.Thread] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def plan(self, matches: Callable[[str, str], bool], faults: list[Fault]) -> None:
        """Have these faults happen to the requests that match, in this order."""
        with self.lock:
            self.matches, self.coming, self.seen = matches, list(faults), []

    def take(self, method: str, path: str) -> Fault | None:
        """The fault for a request."""
        with self.lock:
            if not self.coming or not self.matches(method, path):
                return None
            self.seen.append(self.coming.pop(0))
            return self.seen[-1]

    def settle(self) -> None:
        """No more faults; wait until late requests have arrived."""
        self.plan(lambda _method, _path: False, [])
        while self.late:
            self.late.pop().join()


@contextmanager
def flaky_proxy(upstream: str) -> Iterator[tuple[str, Faults]]:
    """A running proxy: its endpoint, and what it does wrong."""
    faults = Faults(upstream)
    with serving(type("Faulty", (Relay,), {"faults": faults})) as endpoint:
        try:
            yield endpoint, faults
        finally:
            faults.settle()


@contextmanager
def serving(handler: type[BaseHTTPRequestHandler]) -> Iterator[str]:
    """A server on a free port of this machine while the context lasts: its endpoint."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@dataclass(frozen=True, slots=True)
class _Answer:
    status: int
    headers: list[tuple[str, str]]
    body: bytes


class Relay(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    faults: Faults

    def do_GET(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        fault = self.faults.take(self.command, self.path)
        if fault is None:
            self._reply(self._forward(body))
            return
        what, _, when = fault.partition(" ")
        if what == "late":
            late = threading.Timer(LATE_S, self._forward, (body,))
            self.faults.late.append(late)
            late.start()
            what = "silence"
        answer = self._forward(body) if when == "after" else None
        if what.isdecimal():
            self._reply(_Answer(int(what), [], f"<Error><Code>Injected{what}</Code></Error>".encode()))
        elif what == "cut" and answer is not None:
            self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Le")
            self._hang_up()
        elif what == "silence":
            time.sleep(CLIENT_TIMEOUT_S + 0.2)
            self._hang_up()
        else:
            # Closing with a linger of zero sends a reset.
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self._hang_up()

    do_PUT = do_HEAD = do_DELETE = do_POST = do_GET  # noqa: N815 - http.server names them

    def _forward(self, body: bytes) -> _Answer:
        # The Host header stays the proxy's: the request's signature covers it.
        connection = http.client.HTTPConnection(urlsplit(self.faults.upstream).netloc, timeout=30)
        try:
            connection.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
            for name, value in self.headers.items():
                if name.lower() != "connection":
                    connection.putheader(name, value)
            connection.endheaders(body)
            response = connection.getresponse()
            return _Answer(response.status, response.getheaders(), response.read())
        finally:
            connection.close()

    def _reply(self, answer: _Answer) -> None:
        self.send_response_only(answer.status)
        head = self.command == "HEAD"
        for name, value in answer.headers:
            if name.lower() not in {"connection", "transfer-encoding"} and (head or name.lower() != "content-length"):
                self.send_header(name, value)
        if not head:
            self.send_header("Content-Length", str(len(answer.body)))
        self.end_headers()
        if not head:
            self.wfile.write(answer.body)

    def _hang_up(self) -> None:
        self.close_connection = True
        self.connection.close()

    def log_message(self, *_args: object) -> None:
        """Say nothing."""

    def handle(self) -> None:
        """A client that went away is none of the server's business."""
        try:
            super().handle()
        except (OSError, ValueError):
            self.close_connection = True
