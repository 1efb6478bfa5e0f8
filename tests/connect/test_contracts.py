"""Every sink and source we ship, held to the contracts of sinks and sources, in memory, on disk and in a bucket."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

import gapless as gl
from gapless.connect import Sink, Source, sink, source
from gapless.testing import SinkContract, SourceContract
from gapless.testing.connect.rows import SCHEMA, Row, numbered
from support.copies import copied
from support.targets import MODES, TARGETS, Storage


def placed(of: Iterable[str], in_ci: Iterable[str]) -> list[Any]:
    """Parameters of one test in each of the stores, for each format and each of something; what CI has of memory and a bucket is `in_ci`."""
    found = []
    for place in ("disk", "memory", "s3"):
        for kind in TARGETS:
            for one in of:
                mark = () if place == "disk" else pytest.mark.long if one in in_ci else pytest.mark.soak
                found.append(pytest.param((place, kind, one), id=f"{place}-{kind}-{one}", marks=mark))
    return found


class Placed:
    """A place for one test, in one of the stores."""

    def place(self, place: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
        self.other_process = place == "disk"
        self.storage: Storage = None
        if place == "s3":
            self.location, self.storage = request.getfixturevalue("s3_options")
        else:
            self.location = f"memory://{uuid.uuid4()}" if place == "memory" else str(tmp_path / "t")


class TestSinks(Placed, SinkContract):
    """Each mode into each format; in memory every batch is staged as it comes."""

    @pytest.fixture(autouse=True, params=placed(MODES, ("append", "upsert")))
    def _target(self, request: pytest.FixtureRequest, tmp_path: Path) -> None:
        place, self.kind, self.mode = request.param
        self.place(place, request, tmp_path)
        self.key = tuple(MODES[self.mode].get("key", ()))
        self.copy = tmp_path / "copy"
        self.before = numbered(0, 24 if self.mode == "delete" else 0)
        TARGETS[self.kind].make(self.location, self.storage).append(self.before)

    def initial(self) -> Iterable[Row]:
        return list(self.before.to_pylist())

    def make_sink(self, pipeline: str = "orders", generation: int = 1) -> Sink:
        options: dict[str, Any] = {**MODES[self.mode], **({} if self.other_process else {"spill_bytes": 1})}
        identity: dict[str, Any] = {"pipeline": pipeline, "name": "main", "generation": generation}
        return sink(f"{self.kind}:{self.location}", **identity, mode=self.mode, storage_options=self.storage, **options)

    def stored(self) -> Iterable[Row]:
        return TARGETS[self.kind].rows(copied(self.location, self.storage, self.copy))


TABLE_SOURCES: Mapping[str, Mapping[str, Any]] = {
    "whole first": {},
    "by commits": {"start": "earliest"},
    "skipping": {"start": "earliest", "on_change": "skip"},
    "telling": {"start": "earliest", "on_change": "tell"},
    "keeping": {"start": "earliest", "on_schema_change": "keep"},
    "evolving": {"on_schema_change": "evolve", "on_missing_versions": "earliest"},
    "up to now": {"mode": "incremental", "start": "earliest"},
    "a batch": {"mode": "batch"},
}


class TestTableSources(Placed, SourceContract):
    """Out of each format, with each policy."""

    @pytest.fixture(autouse=True, params=placed(TABLE_SOURCES, ("whole first", "telling")))
    def _target(self, request: pytest.FixtureRequest, tmp_path: Path) -> None:
        place, self.kind, name = request.param
        self.place(place, request, tmp_path)
        if self.kind == "hudi" and self.location.startswith("memory:"):
            pytest.skip("hudi-rs does not see the memory of this process: test_hudi_source.py holds that it is refused")
        self.options = TABLE_SOURCES[name]
        self.follows = self.options.get("mode", "continuous") == "continuous"
        if self.kind == "delta":
            feed = {"delta.enableChangeDataFeed": "true"}
            gl.delta.create(self.location, SCHEMA, properties=feed, storage_options=self.storage)
        else:
            TARGETS[self.kind].make(self.location, self.storage)

    def make_source(self) -> Source:
        return source(f"{self.kind}:{self.location}", storage_options=self.storage, **self.options)

    def feed(self, first: int, count: int) -> None:
        TARGETS[self.kind].open(self.location, self.storage).append(numbered(first, count))

    def take_back(self, number: int) -> None:
        TARGETS[self.kind].open(self.location, self.storage).delete(f"v = {number}")
