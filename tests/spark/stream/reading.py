"""A streaming query that is played in this process: the reader is asked as Spark asks it, and no Spark runs."""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from gapless.spark.reading.arrow_columns import shown_schema
from gapless.spark.setup.options import parse_options
from gapless.spark.stream.log import columns_of


class Query:
    """A streaming query that asks the reader as Spark 4.1 does, with a checkpoint that outlives the query."""

    def __init__(self, path: Path, **options: object) -> None:
        self.options = parse_options({"path": str(path), **{k: str(v) for k, v in options.items()}}, "stream read")
        self.offsets: list[str] = []
        """Ends of batches; all but the last are done, and that one too unless it was `lost`."""
        self.restart()

    def restart(self, **options: Any) -> Query:
        """Begin again with the checkpoint, as a new process."""
        from pyspark.sql.pandas.types import from_arrow_schema

        from gapless.spark.stream.source import StreamReader

        self.options = replace(self.options, **options)
        schema = from_arrow_schema(shown_schema(columns_of(self.options)), prefer_timestamp_ntz=True)
        self.reader = pickle.loads(pickle.dumps(StreamReader(self.options, schema)))
        if self.offsets:
            last = json.loads(self.offsets[-1])
            assert self.reader.partitions(last, last) == []
        return self

    @property
    def start(self) -> str:
        return self.offsets[-1] if self.offsets else json.dumps(self.reader.initialOffset())

    def plan(self) -> bool:
        """Write down where the next batch ends; whether there is one."""
        end = json.dumps(self.reader.latestOffset())
        if end == self.start:
            return False
        self.offsets.append(end)
        return True

    def rows(self, batch: int = -1) -> list[dict[str, Any]]:
        """Read a batch that is planned; its ends come from the checkpoint."""
        at = range(len(self.offsets))[batch]
        start = self.offsets[at - 1] if at else json.dumps(self.reader.initialOffset())
        parts = self.reader.partitions(json.loads(start), json.loads(self.offsets[at]))
        return [
            row for part in parts for batch in self.reader.read(pickle.loads(pickle.dumps(part))) for row in batch.to_pylist()
        ]

    def batch(self) -> list[Any]:
        """The next batch, short; empty where there is none."""
        return short(self.rows()) if self.plan() else []

    def drain(self) -> list[list[Any]]:
        """All batches that there are now."""
        found = []
        while self.plan():
            found.append(short(self.rows()))
        return found


def short(rows: Iterable[dict[str, Any]]) -> list[Any]:
    """(entity, value) of each row, and what a feed says of it, in order."""
    told = ("_commit_version", "_change_type")
    return sorted((*(row[name] for name in told if name in row), row["sym"], row["x"]) for row in rows)
