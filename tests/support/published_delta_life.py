"""A random life of a published Delta table: what `published_life` does to a time series, in the words of Delta, other writers among it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa

import gapless as gl
from gapless.errors import VersionNotFound
from gapless.tables.delta.table import DeltaTable
from support.published_life import FIRST, NAMES, TYPES, WIDER, Life, value_of

_SITES = ("a", "b ü/", None)


class DeltaLife(Life):
    """A Delta table at work."""

    hudi: ClassVar[str] = "_hudi"
    acts: ClassVar[Any]

    def _begun(self, path: Path) -> tuple[Any, Mapping[str, Any]]:
        self.partitioned = self.draw.random() < 0.4
        formats = ["iceberg"] if self.partitioned else self.draw.choice([["iceberg", "hudi"]] * 3 + [["iceberg"], []])
        properties = {
            "publish": formats,
            "delta.checkpointInterval": self.draw.choice([3, 5, 100]),
            "delta.enableTypeWidening": True,
        }
        by: dict[str, Any] = {"partition_by": "site"} if self.partitioned else {}
        return gl.delta.create(path, FIRST, properties=properties, **by), properties | by

    def opened(self) -> Any:
        """A new handle."""
        return gl.delta.open(self.path)

    def rows(self, table: Any, count: int) -> pa.Table:
        """Rows in the columns that the table has now."""
        schema = table.refresh().schema
        told = [
            {field.name: value_of(field.type, self.draw) for field in schema}
            | {"site": self.draw.choice(_SITES), "n": self.draw.randrange(1000)}
            for _ in range(count)
        ]
        return pa.Table.from_pylist(told, schema)

    def kept(self, version: int) -> bool:
        """Whether a version can be read still: of one that a vacuum took files of, reading says so."""
        try:
            self.table.at(version=version).scan().to_arrow()
        except VersionNotFound:
            return False
        return True

    @property
    def formats(self) -> tuple[str, ...]:
        """In which it is to be published."""
        table = self.table
        return tuple(table._source(table._snapshot).settings.formats)

    @property
    def publishes_on_commit(self) -> bool:
        """Whether its commits are published with them."""
        table = self.table
        return bool(table._source(table._snapshot).settings.on_commit)


def _append(life: Life, table: DeltaTable) -> str:
    rows = life.rows(table, life.draw.randrange(1, 12))
    return f"{table.append(rows).rows} rows"


def _append_some_columns(life: Life, table: DeltaTable) -> str:
    rows = life.rows(table, life.draw.randrange(1, 6))
    some = [name for name in rows.column_names if name in {"site", "n"} or life.draw.random() < 0.5]
    table.append(rows.select(some))
    return f"{some}"


def _overwrite(life: Life, table: DeltaTable) -> str:
    return f"{table.overwrite(life.rows(table, 20)).rows} rows"


def _update(life: Life, table: DeltaTable) -> str:
    number = life.draw.randrange(1000)
    table.update({"n": "n + 1", "site": "'b ü/'"}, where=f"n < {number}")
    return f"n < {number}"


def _merge(life: Life, table: DeltaTable) -> str:
    rows = life.rows(table, 6)
    keys = rows["n"].to_pylist()
    rows = rows.filter(pa.array([keys.index(key) == at for at, key in enumerate(keys)]))
    merge = table.merge(rows, "t.n = s.n").when_matched_update_all().when_not_matched_insert_all()
    return f"{merge.execute().version}"


def _delete(life: Life, table: DeltaTable) -> str:
    number = life.draw.randrange(1000)
    conditions = [f"n < {number}", f"n >= {number} AND n < {number + 100}", "site = 'a'", "price IS NULL", "true"]
    (where,) = life.draw.choices(conditions, [1, 4, 2, 2, 0.5])
    table.delete(where)
    return where


def _compact(life: Life, table: DeltaTable) -> object:
    return (table.zorder("n") if life.draw.random() < 0.3 else table.compact()).version


def _add_column(life: Life, table: DeltaTable) -> str:
    name, kind = life.draw.choice([*NAMES, "deal.more"]), life.draw.choice(TYPES)
    table.alter.add_column(name, kind)
    return f"{name} {kind}"


def _widen_column(life: Life, table: DeltaTable) -> str:
    name, kind = life.column(table), life.draw.choice(WIDER)
    table.alter.widen(name, kind)
    return f"{name} to {kind}"


def _restore(life: Life, table: DeltaTable) -> str:
    version = life.draw.randrange(max(0, table.refresh().version - 8), table.version + 1)
    table.restore(version)
    return f"version {version}"


def _vacuum(life: Life, table: DeltaTable) -> object:
    return len(table.vacuum(timedelta(0), dry_run=False, enforce_retention=False).deleted)


def _set_properties(life: Life, table: DeltaTable) -> object:
    formats = ["iceberg"] if getattr(life, "partitioned", False) else ["iceberg", "hudi"]
    change: Mapping[str, Any] = life.draw.choice(
        [
            {"delta.parquet.compression.codec": life.draw.choice(["snappy", "gzip", "zstd"])},
            {"publish_on_commit": life.draw.random() < 0.5},
            {"publish_on_commit": True},
            {"publish": life.draw.choice([["iceberg"], []])},
            {"publish": formats},
            {"publish": formats},
            {"delta.enableDeletionVectors": life.draw.random() < 0.3},
        ]
    )
    rewrite = "publish" in change and life.draw.random() < 0.7
    table.alter.set_properties(change, rewrite=rewrite)
    return f"{change}{' rewritten' if rewrite else ''}"


def _publish(_life: Life, table: DeltaTable) -> object:
    return [(one.format, one.version) for one in table.publish()]


Act = Callable[[Life, DeltaTable], object]
DELTA_ACTS: tuple[tuple[Act, float], ...] = (
    (_append, 6),
    (_append_some_columns, 1),
    (_overwrite, 0.7),
    (_update, 2),
    (_merge, 2),
    (_delete, 3),
    (_compact, 2),
    (_add_column, 1.5),
    (_widen_column, 1.5),
    (_restore, 2),
    (_vacuum, 1),
    (_set_properties, 2),
    (_publish, 1),
)
DeltaLife.acts = DELTA_ACTS
