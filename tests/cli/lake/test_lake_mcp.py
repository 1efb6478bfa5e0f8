"""`gapless lake mcp`: the SDK's client asks a server in a process of its own, over its stdin and stdout."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import StdioServerParameters
from mcp.client.client import Client
from mcp.shared.exceptions import MCPError

from gapless.lake.lake import Lake
from gapless.lake.opening import init

SECRET = "hunter2-of-another-file"
Body = Callable[["Agent"], Awaitable[None]]


class Agent:
    """Who asks."""

    def __init__(self, client: Client) -> None:
        self.client = client

    async def describe(self) -> dict[str, Any]:
        told = await self.client.call_tool("describe")
        assert not told.is_error, told
        return dict(told.structured_content)

    async def query(self, sql: object, fingerprints: object = None, **more: object) -> dict[str, Any]:
        """The answer, or the error; by default with the fingerprints of now."""
        if fingerprints is None:
            fingerprints = {one["table"]: one["fingerprint"] for one in (await self.describe())["tables"]}
        told = await self.client.call_tool("query", {"sql": sql, "fingerprints": fingerprints, **more})
        answer = dict(told.structured_content)
        assert told.is_error == ("error" in answer)
        assert json.loads(told.content[0].text) == answer  # type: ignore[union-attr]
        return answer


def served(place: Path, environment: dict[str, str], body: Body, *options: str, mode: str = "auto") -> None:
    server = StdioServerParameters(
        command=sys.executable,
        args=["-m", "gapless", "lake", "mcp", "lake", *options],
        env={**environment, "LAKE_SECRET": SECRET},
        cwd=place,
    )

    async def run() -> None:
        async with Client(server, mode=mode) as client:
            await body(Agent(client))

    anyio.run(run)


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """Three kinds of tables; rows in quarantine; a file beside the lake."""
    (tmp_path / "secret.csv").write_text(f"a\n{SECRET}\n")
    lake = init(tmp_path / "lake")
    lake.create_table("orders", key=["id"])
    lake.run("orders", [{"id": 1, "state": "new"}, {"id": 2, "state": "new"}])
    lake.run("orders", [{"id": 2, "state": "paid"}])
    lake.set_drift("orders", "quarantine")
    lake.run("orders", [{"id": 3, "state": "new", "card": SECRET}])
    lake.create_table("deltas", kind="delta")
    lake.run("deltas", [{"id": 5}])
    lake.create_table("hours", kind="timeseries", index="ts", bucket="1h", timezone="UTC")
    lake.run("hours", [{"ts": datetime(2026, 1, 1, tzinfo=UTC), "v": 1.5}])
    return lake


def tree(place: Path) -> dict[str, str]:
    """All files below a folder, with digests of their bytes."""
    return {
        str(path.relative_to(place)): hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
        for path in sorted(place.rglob("*"))
    }


def test_an_agent_describes_and_asks(lake: Lake, tmp_path: Path, environment: dict[str, str]) -> None:
    async def body(agent: Agent) -> None:
        tools = {one.name: one for one in (await agent.client.list_tools()).tools}
        assert (sorted(tools), tools["query"].input_schema["required"]) == (["describe", "query"], ["sql", "fingerprints"])
        told = await agent.describe()
        tables = {one["table"]: one for one in told["tables"]}
        assert {name: one["kind"] for name, one in tables.items()} == {
            "deltas": "delta",
            "hours": "timeseries",
            "orders": "runs",
        }
        orders = tables["orders"]
        assert [(one["name"], one["type"]) for one in orders["columns"]] == [("id", "BIGINT"), ("state", "VARCHAR")]
        assert (orders["key"], orders["view"], orders["runs"][1]["rows"]) == (["id"], "views/orders.sql", 1)
        answer = await agent.query("SELECT id, state FROM orders ORDER BY id")
        assert (answer["rows"], answer["truncated_by"]) == ([{"id": 1, "state": "new"}, {"id": 2, "state": "paid"}], None)
        both = await agent.query("SELECT d.id, h.v, h.ts FROM deltas d, hours h")
        assert (both["rows"][0]["id"], both["rows"][0]["v"], both["row_count"]) == (5, 1.5, 1)
        with pytest.raises(MCPError, match="Did you mean 'query'"):
            await agent.client.call_tool("qery", {})
        await _rows_are_left_out(agent)
        await _columns_change(agent, lake)

    served(tmp_path, environment, body, "--rows", "3")


async def _rows_are_left_out(agent: Agent) -> None:
    rows = await agent.query("SELECT range AS n FROM range(10000000)", {})
    assert (rows["rows"], rows["truncated_by"]) == ([{"n": number} for number in range(3)], "rows")
    assert (await agent.query("SELECT range AS n FROM range(3)", {}))["truncated_by"] is None
    fewer = await agent.query("SELECT range AS n FROM range(3)", {}, limit=2)
    assert (fewer["row_count"], fewer["truncated_by"]) == (2, "rows")
    assert (await agent.query("SELECT 1 AS n FROM range(9)", {}, limit=9))["row_count"] == 3
    large = await agent.query("SELECT repeat('x', range::INT * 700000) AS x FROM range(3)", {})
    assert ([len(one["x"]) for one in large["rows"]], large["truncated_by"]) == ([0, 700_000], "bytes")


async def _columns_change(agent: Agent, lake: Lake) -> None:
    told = {one["table"]: one["fingerprint"] for one in (await agent.describe())["tables"]}
    sql = "SELECT count(*) AS n FROM deltas"
    assert (await agent.query(sql, told))["rows"] == [{"n": 1}]
    lake.run("deltas", [{"id": 6, "more": "x"}])
    assert (await agent.query(sql, told))["error"] == "schema-mismatch"
    assert (await agent.query(sql))["rows"] == [{"n": 2}]
    lacks = await agent.query(sql, {})
    assert (lacks["error"], "'deltas'" in lacks["what"]) == ("invalid-option", True)
    assert (await agent.query("SELECT 1", {"nothing": "x"}))["error"] == "table-not-found"
    assert (await agent.query(sql, {"deltas": 3}))["error"] == "invalid-option"
    assert (await agent.query(3, told))["error"] == "invalid-option"
    assert "Did you mean 'limit'" in (await agent.query(sql, told, limits=3))["fix"]


HOSTILE = (
    "COPY orders TO 'out.csv'",
    "COPY (SELECT 1) TO 'lake/out.parquet'",
    "EXPORT DATABASE 'out'",
    "ATTACH 'out.db'",
    "INSTALL httpfs",
    "LOAD httpfs",
    "SET enable_external_access = true",
    "RESET lock_configuration",
    "PRAGMA enable_profiling",
    "CREATE TABLE mine AS SELECT 1",
    "INSERT INTO orders VALUES (9, 'x')",
    "DROP VIEW orders",
    "SELECT 1; COPY orders TO 'out.csv'",
    "EXPLAIN ANALYZE SELECT 1",
    "SELECT * FROM query('COPY orders TO ''out.csv''')",
    "SELECT * FROM read_csv('secret.csv')",
    "SELECT * FROM '../secret.csv'",
    "SELECT * FROM read_text('{place}/secret.csv')",
    "SELECT * FROM glob('{place}/*')",
    "SELECT * FROM glob('{place}/lake/tables/orders/**')",
    "SELECT * FROM sniff_csv('{place}/secret.csv')",
    "SELECT * FROM read_blob('/etc/passwd')",
    "SELECT * FROM read_parquet('{quarantined}')",
    "SELECT * FROM parquet_metadata('{quarantined}')",
    "SELECT * FROM read_parquet('{live}/../../{quarantined}')",
    "SELECT * FROM read_csv('http://127.0.0.1:9/x.csv')",
    "SELECT * FROM enable_logging('QueryLog', storage = 'file', storage_path = 'log')",
    "SELECT getenv('LAKE_SECRET')",
    "SELECT * FROM duckdb_secrets()",
    "SELECT * FROM sqlite_scan('{place}/lake/meta.sqlite', 'leases')",
    "SELECT * FROM no_such_table",
    "",
    "SELECT",
)


def test_hostile_queries_are_refused_and_nothing_is_written(lake: Lake, tmp_path: Path, environment: dict[str, str]) -> None:
    manifests = lake.table("orders").manifests()
    (aside,) = [f"{tmp_path}/lake/{one.folder}/{file.path}" for one in manifests for file in one.quarantined]
    (live, *_) = [f"{tmp_path}/lake/{one.folder}/{file.path}" for one in manifests for file in one.files]
    assert Path(aside).is_file()
    before = tree(tmp_path)

    async def body(agent: Agent) -> None:
        known = {one["table"]: one["fingerprint"] for one in (await agent.describe())["tables"]}
        for text in HOSTILE:
            sql = text.replace("{place}", str(tmp_path)).replace("{quarantined}", aside).replace("{live}", live)
            answer = await agent.query(sql, known)
            assert answer.get("error") == "invalid-query", (sql, answer)
            assert SECRET not in str(answer)
        assert (await agent.query("SELECT * FROM duckdb_settings()"))["row_count"] > 100
        # A spill would be a file: what does not fit into memory is refused instead.
        big = await agent.query("SELECT list(a.range) FROM range(100000000) a")
        assert (big["error"], "memory" in big["what"]) == ("query-limit-exceeded", True)
        assert (await agent.query("SELECT count(*) AS n FROM orders"))["rows"] == [{"n": 2}]

    served(tmp_path, environment, body, "--memory", "64", mode="legacy")
    assert tree(tmp_path) == before


def test_a_runaway_query_is_cut_off(tmp_path: Path, environment: dict[str, str]) -> None:
    init(tmp_path / "lake")

    async def body(agent: Agent) -> None:
        runaway = await agent.query("SELECT sum(a.range * b.range) FROM range(10000000) a, range(10000000) b")
        assert (runaway["error"], "0.2 seconds" in runaway["what"]) == ("query-limit-exceeded", True)
        assert (await agent.describe())["tables"] == []

    served(tmp_path, environment, body, "--seconds", "0.2")
