"""`demo lake`: an HTTP API on this machine with pages and failures, three runs of a pipeline, columns that drift, a compaction, a replica."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from gapless.cli.demo.steps import print_code, print_step, run_command
from gapless.cli.show.console import print_line
from gapless.cli.show.failure import failure_of, print_failure
from gapless.errors import GaplessError, PartialFailure, ReadOnlyReplica

OUTPUTS = ("lake", "hub", "replica")
PAGE_ROWS = 4
RUNS = (6, 12, 18)
"""How many orders there are at each run."""
_BROKEN_AFTER = 10
"""In the second run the service fails behind this one, until it is mended."""


class Orders:
    """The orders of a shop, which come to be."""

    def __init__(self) -> None:
        """With none yet."""
        self.there = 0
        self.failures = 0
        """Answers that are to be errors, from page to page."""
        self.broken_after: int | None = None

    def page(self, after: int) -> tuple[int, list[dict[str, object]]]:
        """The status of the answer, and the orders behind one."""
        if self.failures:
            self.failures -= 1
            return 503, []
        if self.broken_after is not None and after >= self.broken_after:
            return 403, []
        return 200, [_order(number) for number in range(after + 1, min(after + PAGE_ROWS, self.there) + 1)]


def _order(number: int) -> dict[str, object]:
    order: dict[str, object] = {"id": number, "customer": f"c{number % 4}", "amount": 10 * number}
    if number > RUNS[1]:  # by then the shop has coupons, and amounts with cents
        order |= {"amount": 10 * number + 0.5, "coupon": f"SPRING{number % 2}"}
    return order


@contextmanager
def serve(orders: Orders) -> Iterator[str]:
    """The service's URL, while it runs."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            after = int(parse_qs(urlsplit(self.path).query).get("after", ["0"])[0])
            status, page = orders.page(after)
            body = json.dumps({"orders": page}).encode()
            self.send_response(status)
            self.send_header("Retry-After", "0")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/orders"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def show_lake(out: Path) -> None:
    """Play it. Raises GaplessError."""
    lake, hub, replica = (out / name for name in OUTPUTS)
    orders = Orders()
    with serve(orders) as url:
        print_step(
            f"A shop gives its orders at {url}, {PAGE_ROWS} a page. A pipeline of a lake reads them into a table with a key."
        )
        run_command("lake", "init", lake, python=f'lake = gl.lake.init("{lake}")')
        _add(lake, _pipeline(url))
        print_step("The first run. The service answers once that it is busy, and is asked again.")
        orders.there, orders.failures = RUNS[0], 1
        run_command("lake", "run", lake, python='lake.run_pipeline("orders")')
        print_step("The second run breaks off behind a page. What came before is committed, with the place to go on at.")
        orders.there, orders.broken_after = RUNS[1], _BROKEN_AFTER
        _run_failing(lake, PartialFailure)
        orders.broken_after = None
        print_step("Run again, it goes on there: nothing is missing, and nothing comes twice.")
        run_command("lake", "run", lake)
        print_step("By the third run orders have coupons, and amounts have cents: the table gets a column, and a wider one.")
        orders.there = RUNS[2]
        run_command("lake", "run", lake)
    run_command("lake", "runs", lake, "orders", python='lake.table("orders").manifests()')
    print_step("The runs become one snapshot.")
    run_command("lake", "compact", lake, "orders", python='lake.table("orders").compact()')
    print_step("The lake is pushed to a directory (a bucket would do), and pulled from there as a replica.")
    run_command("lake", "sync", "push", lake, hub, python=f'lake.push("{hub}")')
    run_command("lake", "sync", "pull", replica, hub, python=f'gl.lake.pull("{hub}", "{replica}")')
    run_command("lake", "sync", "status", replica, python="replica.replica, replica.sync_status(…)")
    print_step("A replica is read, and not written into.")
    _run_failing(replica, ReadOnlyReplica)
    query = "select customer, count(*) as orders, sum(amount) as amount, count(coupon) as coupons from orders group by customer order by customer"
    run_command("lake", "query", replica, query, python='replica.query("select …").to_pandas()')


def _add(lake: Path, pipeline: str) -> None:
    with (lake / "lake.toml").open("a", encoding="utf-8") as config:
        config.write(pipeline)
    print_code(pipeline, "toml")


def _pipeline(url: str) -> str:
    return f"""
[[pipeline]]
name = "orders"
table = "orders"
source = "{url}"
key = ["id"]
options.records = "orders"
options.pagination = {{ type = "AfterValue", parameter = "after", column = "id" }}
"""


def _run_failing(root: Path, kind: type[GaplessError]) -> None:
    try:
        run_command("lake", "run", root)
    except kind as error:
        sys.stdout.flush()
        print_failure(failure_of(error))
        print_line((f"(exit code {error.exit_code})", "dim"))
    else:
        raise AssertionError(f"the run was to end with {kind.code}")
