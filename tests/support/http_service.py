"""An HTTP server on this machine that answers, and fails, as a test says: fixture `http_service`."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qsl, urlsplit

import pytest

Answer = tuple[int, dict[str, str], bytes]


@dataclass
class Service:
    """A server that gives `answer(path, query)`, after the failures that are in its list."""

    url: str = ""
    answer: Callable[[str, dict[str, str]], Answer] = lambda _path, _query: (200, {}, b"[]")
    failures: list[Answer] = field(default_factory=list)
    """An answer of -1 closes the connection; one of -2 says more bytes than it gives."""
    asked: list[tuple[str, dict[str, str], dict[str, str]]] = field(default_factory=list)


@pytest.fixture
def http_service(monkeypatch: pytest.MonkeyPatch) -> Iterator[Service]:
    """A service on this machine, which no proxy lies before."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    told = Service()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            query = dict(parse_qsl(parts.query, keep_blank_values=True))
            told.asked.append((parts.path, query, dict(self.headers)))
            status, headers, body = told.failures.pop(0) if told.failures else told.answer(parts.path, query)
            if status == -1:
                self.close_connection = True
                return
            self.send_response(200 if status == -2 else status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body) + (100 if status == -2 else 0)))
            self.end_headers()
            self.wfile.write(body)
            self.close_connection = status == -2

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads, server.block_on_close = True, False  # clients keep their connections
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    told.url = f"http://127.0.0.1:{server.server_port}/rows"
    yield told
    server.shutdown()
    server.server_close()
    thread.join()
