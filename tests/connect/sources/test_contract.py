"""Sources other than tables, held to the contract of sources; a further one joins by a class that says how it is made and fed."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gapless.connect import AfterValue, PageNumber, PageToken, Source, source
from gapless.connect.sources.http_pages import Pagination
from gapless.testing import SourceContract
from gapless.testing.connect.rows import SCHEMA, numbered
from support.http_service import Answer, Service
from support.kafka import Cluster

NUMBER = pa.schema([("v", pa.int64())])


class TestFiles(SourceContract):
    """A file for each feed; Parquet, CSV and JSON lines."""

    @pytest.fixture(autouse=True, params=["parquet", "csv", "jsonl"])
    def _place(self, request: pytest.FixtureRequest, tmp_path: Path) -> None:
        self.folder, self.suffix = tmp_path, request.param

    def make_source(self) -> Source:
        schema: Any = SCHEMA if self.suffix == "parquet" else NUMBER
        return source(f"files:{self.folder}/*.{self.suffix}", schema=schema)

    def feed(self, first: int, count: int) -> None:
        rows, draft = numbered(first, count), self.folder / ".draft"
        if self.suffix == "parquet":
            pq.write_table(rows, draft)
        else:
            numbers = rows["v"].to_pylist()
            lines = ["v", *map(str, numbers)] if self.suffix == "csv" else [json.dumps({"v": number}) for number in numbers]
            draft.write_text("\n".join(lines) + "\n")
        draft.rename(self.folder / f"{first:09}.{self.suffix}")


class TestSql(SourceContract):
    """SQLite, with a tie at each row of even number and the next."""

    @pytest.fixture(autouse=True)
    def _place(self, tmp_path: Path) -> None:
        self.file = tmp_path / "d.db"
        self.run("CREATE TABLE rides (v INTEGER PRIMARY KEY, at INTEGER NOT NULL)")

    def run(self, statement: str) -> None:
        with closing(sqlite3.connect(self.file)) as connection:
            connection.execute(statement)
            connection.commit()

    def make_source(self) -> Source:
        return source(f"sql:sqlite:///{self.file}", table="rides", cursor_column="at")

    def feed(self, first: int, count: int) -> None:
        rows = ", ".join(str((number, number // 2)) for number in range(first, first + count))
        self.run(f"INSERT INTO rides VALUES {rows}")


class TestKafka(SourceContract):
    """JSON in two partitions of a topic."""

    in_order = False

    @pytest.fixture(autouse=True)
    def _place(self, kafka_cluster: Cluster) -> None:
        self.cluster, self.topic = kafka_cluster, kafka_cluster.topic()

    def make_source(self) -> Source:
        return source(f"kafka:{self.topic}", brokers=self.cluster.brokers, format="json", schema=NUMBER)

    def feed(self, first: int, count: int) -> None:
        self.cluster.send(self.topic, [json.dumps({"v": number}).encode() for number in range(first, first + count)])


WAYS: dict[str, Pagination] = {
    "after": AfterValue("since", "v"),
    "token": PageToken("token", "next"),
    "number": PageNumber(),
}


class TestServices(SourceContract):
    """A list that grows, in pages of three."""

    @pytest.fixture(autouse=True, params=WAYS)
    def _place(self, request: pytest.FixtureRequest, http_service: Service) -> None:
        self.service, self.way, self.total = http_service, WAYS[request.param], 0
        self.service.answer = self._answer

    def _answer(self, _path: str, query: dict[str, str]) -> Answer:
        first = int(query["since"]) + 1 if "since" in query else int(query.get("token", 0))
        first = 3 * (int(query["page"]) - 1) if "page" in query else first
        found = [{"v": number} for number in range(first, self.total)][:3]
        body = {"items": found, "next": str(first + 3) if first + 3 < self.total else None}
        return 200, {}, json.dumps(body).encode()

    def make_source(self) -> Source:
        return source(self.service.url, records="items", pagination=self.way, schema=NUMBER)

    def feed(self, first: int, count: int) -> None:
        self.total = first + count
