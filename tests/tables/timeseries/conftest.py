"""A small table with everything in it that can be damaged, and the store it lies in."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest

import gapless as gl
from gapless.formats.timeseries.codec.json_values import seal
from gapless.formats.timeseries.format import TIME_SERIES
from gapless.model.protocols import Store
from gapless.store.open import open_store

START = datetime(2026, 1, 5, tzinfo=UTC)


def rows(first: int, count: int = 4, symbol: str = "A") -> pa.Table:
    """`count` hourly rows of one symbol from hour `first` on."""
    times = [START + timedelta(hours=hour) for hour in range(first, first + count)]
    columns = {"ts": times, "symbol": [symbol] * count, "v": [float(hour) for hour in range(first, first + count)]}
    return pa.table(columns, schema=pa.schema([("ts", pa.timestamp("s", "UTC")), ("symbol", pa.string()), ("v", pa.float64())]))


@dataclass(frozen=True)
class Place:
    """A table's location and its store."""

    url: str
    store: Store

    def path_of(self, version: int) -> str:
        return TIME_SERIES.path_of(version)

    def names(self, start: str) -> list[str]:
        return [info.path for info in self.store.list() if info.path.startswith(start)]

    def write(self, path: str, data: bytes) -> None:
        self.store.put(path, data, mode="overwrite")

    def flip(self, path: str, at: int = -10) -> None:
        """Flip one bit of a byte."""
        data = bytearray(self.store.get(path))
        data[at] ^= 4
        self.write(path, bytes(data))

    def edit(self, version: int, change: Callable[[dict[str, Any]], object]) -> None:
        """Change a commit's JSON and seal it again, as a writer with a bug would have written it."""
        envelope = json.loads(self.store.get(self.path_of(version)))
        del envelope["checksum"]
        change(envelope)
        self.write(self.path_of(version), seal(json.dumps(envelope, separators=(",", ":")).encode()))

    def segment(self, version: int) -> dict[str, Any]:
        """The body of the one AddSegment of a commit."""
        envelope = json.loads(self.store.get(self.path_of(version)))
        return next(action["AddSegment"] for action in envelope["actions"] if "AddSegment" in action)

    def edit_segment(self, version: int, **changes: object) -> None:
        def change(envelope: dict[str, Any]) -> None:
            for action in envelope["actions"]:
                if "AddSegment" in action:
                    action["AddSegment"].update(changes)

        self.edit(version, change)

    def everything(self) -> dict[str, bytes]:
        return {info.path: self.store.get(info.path) for info in self.store.list()}

    def codes(self, *, deep: bool = False) -> list[str]:
        """The codes of all problems."""
        return [finding.code for finding in gl.verify(self.url, deep=deep).problems]


@pytest.fixture
def make_place(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Place]:
    """Make a table with version 1 and five appends of four hours each, every one with an operation id."""

    def make(*, inline: bool = False, **properties: object) -> Place:
        if not inline:
            monkeypatch.setattr("gapless.files.write.staged_write.INLINE_COVERAGE_BYTES", 0)
        url = f"memory://{uuid.uuid4()}"
        table = gl.create(url, index="ts", bucket="1h", entity="symbol", properties={"checkpoint_interval": 0, **properties})
        for day in range(5):
            table.append(rows(24 * day), operation_id=("feed", day) if day % 2 else f"job-{day}")
        return Place(url, open_store(url))

    return make


@pytest.fixture
def place(make_place: Callable[..., Place]) -> Place:
    """Such a table, with sidecars and without checkpoints."""
    made = make_place()
    assert made.codes(deep=True) == []
    return made
