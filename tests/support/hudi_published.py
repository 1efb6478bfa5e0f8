"""Tables that are published as Hudi, over a store that a test gives, and what readers see of them."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from gapless.publish.hudi.publisher import HudiPublisher
from gapless.testing.store.stores import DictStore
from support.clocked_table import SetClock, rows_at
from support.hudi_reader import rows_seen, versions_told
from support.published_sources import SERIES, SourceKind

PUBLISHED = {"publish": ["hudi"]}


class StoppedClock(SetClock):
    """One at which nothing takes time: all attempts begin in one millisecond."""

    def now_ns(self) -> int:
        return self.ns


class QuickClock(SetClock):
    """One at which a look takes a fifth of a millisecond."""

    def now_ns(self) -> int:
        self.ns += 200_000
        return self.ns


def table_in(store: object, clock: SetClock | None = None, kind: SourceKind = SERIES, **properties: object) -> Any:
    return kind.table_in(store, clock, **{**PUBLISHED, **properties})


def again(store: object, clock: SetClock | None = None, kind: SourceKind = SERIES) -> Any:
    return kind.again(store, clock)


def adopted(store: object, folder: Path, hour: int, clock: SetClock | None = None) -> Any:
    """The table after it took a file in, in an attempt that claims no instant, as those of Spark jobs."""
    path = folder / f"{hour}.parquet"
    pq.write_table(rows_at(hour), path)
    table = again(store, clock)
    table.append_file(path, adopt="copy")
    return table


def rows_of(table: Any) -> Counter[str]:
    return Counter(repr(sorted((k, v) for k, v in row.items() if k != "note")) for row in table.scan().to_arrow().to_pylist())


def shown(store: object, at: str = "9" * 17, kind: SourceKind = SERIES) -> Counter[str] | None:
    seen = rows_seen(store, at, kind.hudi)  # type: ignore[arg-type]
    return None if seen is None else Counter({row.replace("('note', None), ", ""): count for row, count in seen.items()})


def check(store: DictStore, kind: SourceKind = SERIES) -> None:
    """Readers see the newest version, and each version is published at most once."""
    table = again(store, kind=kind)
    (publication,) = table.publish()
    assert (publication.version, publication.behind) == (table.version, 0)
    assert shown(store, kind=kind) == rows_of(table)
    told = versions_told(store, kind.hudi)
    begun = json.loads(store.get(f"{kind.hudi}/.hoodie/.aux/gapless.json"))["version"]
    later = [version for version in told.values() if version != begun]
    assert sorted(later) == sorted(set(later))
    assert HudiPublisher(table._env, kind.hudi).differences(table._source(table._snapshot)) == []
