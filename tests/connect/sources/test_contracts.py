"""The contract of sources, of files, topics, services and databases."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gapless.connect import AfterValue, PageNumber, PageToken, Source, source
from gapless.connect.sources.http_pages import Pagination
from gapless.testing import SourceContract
from support.http_service import Answer, Service
from support.kafka import Cluster

SCHEMA = pa.schema([("v", pa.int64())])


class TestFiles(SourceContract):
    """A file each time."""

    @pytest.fixture(autouse=True)
    def _place(self, tmp_path: Path) -> None:
        self.place = tmp_path

    def make_source(self) -> Source:
        return source(f"files:{self.place}/*.parquet", schema=SCHEMA)

    def feed(self, first: int, count: int) -> None:
        unfinished = self.place / f".{first}"
        pq.write_table(pa.table({"v": range(first, first + count)}), unfinished, row_group_size=2)
        unfinished.rename(self.place / f"{first:04}.parquet")


class TestTopics(SourceContract):
    """Records of one partition, whose order is kept."""

    @pytest.fixture(autouse=True)
    def _place(self, kafka_cluster: Cluster) -> None:
        self.cluster, self.topic = kafka_cluster, kafka_cluster.topic()

    def make_source(self) -> Source:
        options = {"format": "json", "metadata": False, "schema": SCHEMA}
        return source(f"kafka:{self.topic}", brokers=self.cluster.brokers, **options)

    def feed(self, first: int, count: int) -> None:
        self.cluster.send(self.topic, [b'{"v": %d}' % number for number in range(first, first + count)], 1)


class TestDatabases(SourceContract):
    """A table of SQLite, whose column has ties."""

    @pytest.fixture(autouse=True)
    def _place(self, tmp_path: Path) -> None:
        self.path = tmp_path / "d.db"
        self._run("CREATE TABLE t (v INTEGER PRIMARY KEY, third INTEGER NOT NULL)")

    def _run(self, statement: str) -> None:
        with closing(sqlite3.connect(self.path)) as database:
            database.execute(statement)
            database.commit()

    def make_source(self) -> Source:
        return source(f"sql:sqlite:///{self.path}", table="t", cursor_column="third")

    def feed(self, first: int, count: int) -> None:
        self._run(f"INSERT INTO t VALUES {', '.join(f'({number}, {number // 3})' for number in range(first, first + count))}")


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
        return source(self.service.url, records="items", pagination=self.way, schema=SCHEMA)

    def feed(self, first: int, count: int) -> None:
        self.total = first + count
