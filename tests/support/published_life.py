"""A random life of a published time-series table, drawn from a seed: appends, corrections, care, columns and properties that change.

Two handles take turns, so that one of them is mostly stale. What is refused must leave the table, and how far it is published, as it was.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.parquet as pq

import gapless as gl
from gapless.errors import VersionNotFound
from gapless.model.publishing import PUBLISHED_FORMATS

START = datetime(2026, 1, 5, tzinfo=UTC)
HOURS = 60
NAMES = ("v", "w", "x", "y")
TYPES = (
    pa.int16(),
    pa.int32(),
    pa.int64(),
    pa.float32(),
    pa.float64(),
    pa.string(),
    pa.bool_(),
    pa.date32(),
    pa.decimal128(5, 2),
    pa.timestamp("us", "UTC"),
    pa.list_(pa.int32()),
    pa.struct([("a", pa.int32()), ("b", pa.string())]),
)
WIDER = (pa.int32(), pa.int64(), pa.float64(), pa.decimal128(9, 2))
FIRST = pa.schema(
    [
        ("ts", pa.timestamp("us", "UTC")),
        ("site", pa.string()),
        ("n", pa.int32()),
        ("price", pa.float32()),
        ("deal", pa.struct([("by", pa.string()), ("lots", pa.list_(pa.int64()))])),
        ("v", pa.int32()),
    ]
)


def value_of(kind: pa.DataType, draw: Random) -> Any:
    """A value of a type, with those among them that formats treat differently: null, NaN, the negative zero, the empty text."""
    if draw.random() < 0.2:
        return None
    number = draw.randrange(100)
    if pa.types.is_integer(kind):
        return draw.choice([number, -number, 2 ** (kind.bit_width - 1) - 1, -(2 ** (kind.bit_width - 1))])
    if pa.types.is_floating(kind):
        return draw.choice([0.25 * number, -0.5 * number, float("nan"), -0.0, float("inf")])
    if pa.types.is_decimal(kind):
        return Decimal(draw.choice([number, -number])).scaleb(-kind.scale)
    if pa.types.is_list(kind):
        return [value_of(kind.value_type, draw) for _ in range(draw.randrange(3))]
    if pa.types.is_struct(kind):
        return {field.name: value_of(field.type, draw) for field in kind}
    if pa.types.is_timestamp(kind):
        return START - timedelta(microseconds=number)
    if pa.types.is_date(kind):
        return date(1969, 12, 1) + timedelta(days=number)
    if pa.types.is_boolean(kind):
        return number % 2 == 0
    return draw.choice(["", "ünï" * 3, f"t{number}", "z" * 40])


class Life:
    """A table at work: `step` does one thing to it, `told` says what was done, a line a step."""

    hudi: ClassVar[str] = "data"
    """The base path of its Hudi table."""
    acts: ClassVar[Any]
    """What is done to it, and how often."""

    def __init__(self, path: Path, seed: int) -> None:
        """Make the table, published in all formats, in some of them, or in none yet."""
        self.path, self.seed, self.draw = path, seed, Random(seed)
        table, properties = self._begun(path)
        self.handles: list[Any] = [table, self.opened()]
        # Each life does some things often and others hardly ever.
        self.weights = [weight * self.draw.choice([0.2, 1, 3]) for _, weight in self.acts]
        self.told = [f"seed {seed}: {properties}"]
        self.refused = 0
        self.tags = 0
        self.versions: dict[int, pa.Table] = {}
        """The rows of each version that a step ended with, as they were read then."""
        self._note()

    def _begun(self, path: Path) -> tuple[Any, Mapping[str, Any]]:
        """The table, and what was drawn for it."""
        chosen = self.draw.choice([PUBLISHED_FORMATS] * 8 + [("delta", "iceberg"), ("iceberg", "hudi"), ("delta", "hudi"), ()])
        properties = {
            "publish": list(chosen),
            "checkpoint_interval": self.draw.choice([3, 5, 100]),
            "on_overlap": self.draw.choice(["allow", "skip", "replace"]),
        }
        table = gl.create(path, index="ts", bucket="1h", entity=["site"], schema=FIRST, properties=properties)
        return table, properties

    def opened(self) -> Any:
        """A new handle."""
        return gl.open(self.path)

    @property
    def formats(self) -> tuple[str, ...]:
        """In which it is to be published."""
        return tuple(self.table.properties.publish)

    @property
    def publishes_on_commit(self) -> bool:
        """Whether its commits are published with them."""
        return bool(self.table.properties.publish_on_commit)

    @property
    def table(self) -> Any:
        """A handle that is at the newest version."""
        return self.handles[0].refresh()

    def step(self) -> None:
        """Do one thing. Raises what is no refusal; AssertionError where a refusal left something behind."""
        which = self.draw.randrange(2)
        if self.draw.random() < 0.1:
            self.handles[which] = self.opened()
        (act,) = self.draw.choices([act for act, _ in self.acts], self.weights)
        before = self._state()
        self.told.append(f"{len(self.told)}. handle {which}, version {before[0]}: {act.__name__.strip('_')}")
        try:
            done = act(self, self.handles[which])
        except (gl.CallError, gl.DataError, gl.ConflictError) as error:
            self.refused += 1
            self.told[-1] += f" refused: {type(error).__name__}: {error}"
            assert self._state() == before, f"{self.told[-1]}: {before} became {self._state()}"
        else:
            self.told[-1] += f" {done}"
        self._note()

    def kept(self, version: int) -> bool:
        """Whether a version can be read still."""
        try:
            self.table.at(version=version)
        except VersionNotFound:
            return False
        return True

    def _state(self) -> tuple[int, list[Any]]:
        table = self.opened()
        return table.version, [(one.format, one.published_version) for one in table.publications()]

    def _note(self) -> None:
        table = self.table
        self.versions[table.version] = table.scan().to_arrow()

    def rows(self, table: Any, count: int) -> pa.Table:
        """Rows of distinct keys, in the columns that the table has now."""
        schema = table.refresh().schema
        assert schema is not None
        keys = self.draw.sample(range(HOURS * 3), count)
        rows = [
            {field.name: value_of(field.type, self.draw) for field in schema}
            | {"ts": START + timedelta(hours=key // 3), "site": "abc"[key % 3], "n": self.draw.randrange(1000)}
            for key in keys
        ]
        return pa.Table.from_pylist(rows, schema=schema)

    def column(self, table: Any) -> str:
        """One of the columns that may change, or a field of one."""
        schema = table.refresh().schema
        assert schema is not None
        names: list[str] = [name for name in schema.names if name not in {"ts", "site", "n"}]
        names += [
            f"{one}.{field.name}" for one in names if pa.types.is_struct(kind := schema.field(one).type) for field in kind
        ]
        return self.draw.choice(names or ["n"])


Act = Callable[[Life, gl.TimeSeriesTable], object]


def _append(life: Life, table: gl.TimeSeriesTable) -> str:
    rows = life.rows(table, life.draw.randrange(1, 12))
    policy: Any = life.draw.choice([None, "allow", "skip", "replace", "reject"])
    table.append(rows, on_overlap=policy)
    return f"{rows.num_rows} rows, {policy}"


def _append_some_columns(life: Life, table: gl.TimeSeriesTable) -> str:
    rows = life.rows(table, life.draw.randrange(1, 12))
    some = [name for name in rows.column_names if name in {"ts", "site"} or life.draw.random() < 0.5]
    table.append(rows.select(life.draw.sample(some, len(some))), on_overlap="allow")
    return f"{rows.num_rows} rows of {some}"


def _adopt(life: Life, table: gl.TimeSeriesTable) -> str:
    path = life.path.parent / f"{len(life.told)}.parquet"
    pq.write_table(life.rows(table, 5).sort_by("ts"), path)
    return f"{table.append_file(path, adopt='copy', on_overlap='allow').segments} segments"


def _upsert(life: Life, table: gl.TimeSeriesTable) -> str:
    rows = life.rows(table, life.draw.randrange(1, 8))
    return f"{table.upsert(rows).version} of {rows.num_rows} rows"


def _delete(life: Life, table: gl.TimeSeriesTable) -> str:
    number = life.draw.randrange(1000)
    conditions = [f"n < {number}", f"n >= {number} AND n < {number + 100}", "site = 'a'", "price IS NULL", "true"]
    (where,) = life.draw.choices(conditions, [1, 4, 2, 2, 0.5])
    table.delete(where)
    return where


def _replace(life: Life, table: gl.TimeSeriesTable) -> str:
    first = life.draw.randrange(HOURS)
    start, end = START + timedelta(hours=first), START + timedelta(hours=first + life.draw.randrange(1, 20))
    rows = life.rows(table, 30).to_pylist()
    assert table.schema is not None
    table.replace((start, end), pa.Table.from_pylist([row for row in rows if start <= row["ts"] < end], table.schema))
    return f"{start:%d %H}-{end:%d %H}"


def _drop_before(life: Life, table: gl.TimeSeriesTable) -> str:
    hours = life.draw.randrange(HOURS // 2)
    table.drop_before(START + timedelta(hours=hours))
    return f"{hours} hours"


def _compact(life: Life, table: gl.TimeSeriesTable) -> object:
    return table.compact(resort=life.draw.random() < 0.3).version


def _add_column(life: Life, table: gl.TimeSeriesTable) -> str:
    name, kind = life.draw.choice([*NAMES, "deal.more", "deal.by"]), life.draw.choice(TYPES)
    table.add_column(name, kind, after="ts" if "." not in name and life.draw.random() < 0.5 else None)
    return f"{name} {kind}"


def _drop_column(life: Life, table: gl.TimeSeriesTable) -> str:
    name = life.column(table)
    table.drop_column(name)
    return name


def _drop_and_add(life: Life, table: gl.TimeSeriesTable) -> str:
    name, kind = life.column(table), life.draw.choice(TYPES)
    before = table.refresh().version
    table.drop_column(name)
    try:
        table.add_column(name, kind)
    except (gl.CallError, gl.DataError) as error:
        return f"{name} (dropped in {before + 1}; {kind} not added: {error})"
    return f"{name} {kind}"


def _rename_column(life: Life, table: gl.TimeSeriesTable) -> str:
    old, new = life.column(table), life.draw.choice(NAMES)
    table.rename_column(old, new)
    return f"{old} to {new}"


def _widen_column(life: Life, table: gl.TimeSeriesTable) -> str:
    name, kind = life.column(table), life.draw.choice(WIDER)
    table.widen_column(name, kind)
    return f"{name} to {kind}"


def _reorder(life: Life, table: gl.TimeSeriesTable) -> str:
    name = life.column(table).partition(".")[0]
    table.reorder_columns([name])
    return name


def _restore(life: Life, table: gl.TimeSeriesTable) -> str:
    version = life.draw.randrange(max(1, table.refresh().version - 8), table.version + 1)
    table.restore(version=version)
    return f"version {version}"


def _tag(life: Life, table: gl.TimeSeriesTable) -> str:
    life.tags += 1
    table.tag(f"t{life.tags}", move=True)
    return f"t{life.tags}"


def _untag(life: Life, table: gl.TimeSeriesTable) -> str:
    names = sorted(table.refresh().tags)
    for name in names[: life.draw.randrange(3)]:
        table.untag(name)
    return f"of {names}"


def _expire(life: Life, table: gl.TimeSeriesTable) -> str:
    keep = life.draw.choice([1, 2, 4, 8])
    report = table.expire(keep_versions=keep)
    return f"keep {keep}: {report.version}"


def _vacuum(life: Life, table: gl.TimeSeriesTable) -> object:
    return len(table.vacuum(timedelta(0), dry_run=False).files)


def _set_properties(life: Life, table: gl.TimeSeriesTable) -> object:
    change: Mapping[str, Any] = life.draw.choice(
        [
            {"codec": life.draw.choice(["fastest", "smallest", "snappy", "gzip"])},
            {"checkpoint_interval": life.draw.choice([2, 7])},
            {"auto_compact_segments": life.draw.choice([0, 4])},
            {"publish_on_commit": life.draw.random() < 0.5},
            {"publish_on_commit": True},
            {"publish": life.draw.choice([["delta"], ["iceberg", "hudi"], []])},
            {"publish": list(PUBLISHED_FORMATS)},
            {"publish": list(PUBLISHED_FORMATS)},
            {"publish": list(PUBLISHED_FORMATS)},
        ]
    )
    rewrite = "publish" in change and life.draw.random() < 0.7
    table.set_properties(change, rewrite=rewrite)
    return f"{change}{' rewritten' if rewrite else ''}"


def _publish(life: Life, table: gl.TimeSeriesTable) -> object:
    return [(one.format, one.version) for one in table.publish()]


ACTS: tuple[tuple[Act, float], ...] = (
    (_append, 6),
    (_append_some_columns, 1),
    (_adopt, 0.7),
    (_upsert, 3),
    (_delete, 3),
    (_replace, 2),
    (_drop_before, 0.3),
    (_compact, 2),
    (_add_column, 1.5),
    (_drop_column, 0.4),
    (_drop_and_add, 0.3),
    (_rename_column, 0.4),
    (_widen_column, 1.5),
    (_reorder, 0.5),
    (_restore, 2),
    (_tag, 0.5),
    (_untag, 0.3),
    (_expire, 1.5),
    (_vacuum, 1.5),
    (_set_properties, 2),
    (_publish, 1),
)
Life.acts = ACTS
