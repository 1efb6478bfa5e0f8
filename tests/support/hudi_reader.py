"""What a reader of Hudi sees of a table in a store: a model of the rule by which Hudi 1.2 and hudi-rs 0.5 read, tried with both."""

from __future__ import annotations

import io
import json
import re
from collections import Counter

import pyarrow.parquet as pq

from gapless.model.protocols import Store

_FILE = re.compile(r"[^/]+/([^_/]+)_([^_/]+)_(\d{17})\.parquet")
_INSTANT = re.compile(r"[^/]+/\.hoodie/(\d{17})\.(commit|replacecommit)")


def files_seen(store: Store, at: str = "9" * 17, base: str = "data") -> list[str] | None:
    """The files whose rows a reader of the base path shows as of an instant; None where it finds no table."""
    names = [info.path for info in store.list(base)]
    if f"{base}/.hoodie/hoodie.properties" not in names or f"{base}/.hoodie_partition_metadata" not in names:
        return None
    completed, hidden, ever = set(), set(), Counter[str]()
    for name in names:
        if match := _INSTANT.fullmatch(name):
            completed.add(match[1])
            if match[1] > at:
                continue
            told = json.loads(store.get(name))
            replaced = {one for ids in told.get("partitionToReplaceFileIds", {}).values() for one in ids}
            hidden |= replaced
            ever.update(replaced)
    # As of an instant between the two Spark shows what was replaced twice.
    assert set(ever.values()) <= {1}, ever
    first = min(completed, default="")
    newest: dict[str, tuple[str, str]] = {}
    for name in names:
        if name.endswith(".parquet") and name.count("/") == 1:
            match = _FILE.fullmatch(name)
            assert match is not None, f"readers fail at {name}"
            if match[3] <= at and (match[3] in completed or match[3] < first):
                newest[match[1]] = max(newest.get(match[1], ("", "")), (match[3], name))
    return sorted(name for file_id, (_, name) in newest.items() if file_id not in hidden)


def rows_seen(store: Store, at: str = "9" * 17, base: str = "data") -> Counter[str] | None:
    """The rows that a reader shows as of an instant, in the columns of their files; None where it finds no table."""
    files = files_seen(store, at, base)
    if files is None:
        return None
    tables = [pq.read_table(io.BytesIO(store.get(name))) for name in files]
    return Counter(repr(sorted(row.items())) for table in tables for row in table.to_pylist())


def versions_told(store: Store, base: str = "data") -> dict[str, int]:
    """The version that each instant publishes, by the name of its file in the timeline."""
    names = [info.path for info in store.list(f"{base}/.hoodie") if _INSTANT.fullmatch(info.path)]
    return {name[len(base) + 9 :]: int(json.loads(store.get(name))["extraMetadata"]["gapless.version"]) for name in names}
