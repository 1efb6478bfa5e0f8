"""Everything that can happen to a table in its life, in any order, against a dict-of-rows model; old versions re-read to the end."""

from __future__ import annotations

import re
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable
from datetime import timedelta
from pathlib import Path
from random import Random
from typing import Any

import duckdb
import hypothesis.strategies as st
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule, run_state_machine_as_test

from gapless.errors import CoverageOverlap, VersionNotFound
from gapless.model.protocols import Store
from gapless.runtime.environment import Environment
from gapless.store.local.store import LocalStore
from gapless.tables.timeseries.lifecycle import create_table, open_table, parse_index
from gapless.tables.timeseries.read.view import TableView
from gapless.tables.timeseries.table import TimeSeriesTable
from gapless.testing.simulation.timeline import SimClock, SimIds, Timeline
from gapless.testing.store.stores import DictStore
from tables.timeseries.life_model import FIRST, KEY, TS, VALUE, WIDTH, Column, Model, Row, Version

ttf = pytest.importorskip("timeseries_table_format", reason="needs a newer pyarrow than our oldest")

TYPES = {"int32": pa.int32(), "int64": pa.int64(), "string": pa.string(), "float64": pa.float64()}
RANGE = (-100 * WIDTH, 1_000 * WIDTH)

instants = st.integers(-2 * WIDTH, 4 * WIDTH - 1)
keys = st.sampled_from("xy")
values = st.none() | st.integers(0, 9)
rows_of = st.lists(st.fixed_dictionaries({TS: instants, KEY: keys, VALUE: values}), min_size=1, max_size=4)
spans = st.tuples(instants, st.integers(1, 3 * WIDTH)).map(lambda pair: (pair[0], pair[0] + pair[1]))
handles = st.sampled_from([0, 0, 1])
policies = st.sampled_from(["reject", "skip", "allow", "replace"])


def unique_by_key(rows: list[Row]) -> list[Row]:
    return list({(row[TS], row[KEY]): row for row in rows}.values())


class TableLife(RuleBasedStateMachine):
    """Two handles on one table, and the model."""

    def __init__(self) -> None:
        super().__init__()
        self.timeline = Timeline(time.time_ns() if self.on_disk else 1_700_000_000_000_000_000)
        self.store = self.make_store()
        self.model = Model()
        self.held: list[tuple[int, TableView]] = []
        """Views of old versions, opened when these were new."""
        self.jobs = 0

    on_disk = False

    def make_store(self) -> Store:
        return DictStore(lambda: self.timeline.now_ns)

    @initialize(interval=st.sampled_from([0, 2, 3]), seed=st.integers(0, 2**32), inline=st.sampled_from([0, 0, 1 << 20]))
    def create(self, interval: int, seed: int, inline: int) -> None:
        self.random = Random(seed)
        schema = pa.schema([pa.field("ts", pa.int64(), nullable=False), ("k", pa.string()), ("v", pa.int32())])
        env = self.env()
        # On a disk, others read the files, and timeseries-table-format would refuse.
        properties = {"checkpoint_interval": interval, "inline_bytes": 0 if self.on_disk else inline}
        create_table(env, "memory://life", parse_index("ts", "int64", WIDTH, ("k",), None), schema, properties)
        self.tables = [self.open(), self.open()]

    def env(self) -> Environment:
        random = getattr(self, "random", Random(0))
        return Environment(
            store=self.store, clock=SimClock(self.timeline), ids=SimIds(Random(random.getrandbits(64))), deadline_s=5.0
        )

    def open(self) -> TimeSeriesTable:
        env = self.env()
        return TimeSeriesTable(env, "memory://life", open_table(env, "memory://life"))

    # -- help ----------------------------------------------------------------------------------------------------------

    def writer(self, handle: int) -> TimeSeriesTable:
        """A handle, brought up to date only where its columns are not among the newest."""
        table = self.tables[handle]
        if any(column not in self.model.now.columns for column in self.model.at(table.version).columns):
            table.refresh()
        return table

    def frame(self, table: TableView, rows: list[Row], *, whole: bool = False) -> tuple[pa.Table, list[Row]]:
        """Rows as input with columns that the handle knows, or with `whole` all of the newest; and as the model should take them."""
        known = self.model.now.columns if whole else self.model.at(table.version).columns
        columns = [column for column in known if whole or self.random.random() < 0.7 or column.number < VALUE]
        filled = [self.fill(row, columns) for row in rows]
        arrays = [pa.array([row[column.number] for row in filled], TYPES[column.type]) for column in columns]
        return pa.table(arrays, names=[column.name for column in columns]), filled

    def fill(self, row: Row, columns: list[Column]) -> Row:
        given = {column.number: row[column.number] for column in columns if column.number in row}
        return {column.number: given.get(column.number, self.value_for(column)) for column in columns}

    def value_for(self, column: Column) -> Any:
        number = self.random.randrange(5)
        return None if number == 0 else {"string": str(number), "float64": number / 2}.get(column.type, number)

    def landed(self, table: TableView, *, version: int | None = None) -> None:
        """The handle has moved to what the model calls the newest version."""
        assert table.version == self.model.newest
        assert version is None or version == self.model.newest
        self.check(table, self.model.now)

    def change(self, table: TableView, rows: list[Row], report: Any) -> None:
        """A change that may have found nothing to do."""
        if report.version <= self.model.newest:
            assert Counter(map(self.model.now.shown, rows)) == self.model.now.counted()
            return
        self.model.land(rows)
        self.landed(table, version=report.version)

    def check(self, table: TableView, version: Version) -> None:
        """Rows, columns and coverage."""
        assert rows_in(table.scan().to_arrow(), version) == version.counted()
        covered = {(str(b.identity[0]), b.start // WIDTH) for b in table.coverage(*RANGE).buckets()}
        assert covered == version.covered()

    # -- rows ----------------------------------------------------------------------------------------------------------

    @rule(handle=handles, rows=rows_of, policy=policies, named=st.booleans())
    def append(self, handle: int, rows: list[Row], policy: Any, named: bool) -> None:
        table = self.writer(handle)
        data, rows = self.frame(table, rows)
        after = self.model.append(rows, policy)
        self.jobs += 1
        job = f"job-{self.jobs}" if named else None
        if after is None:
            with pytest.raises(CoverageOverlap):
                table.append(data, on_overlap=policy, operation_id=job)
            return
        report = table.append(data, on_overlap=policy, operation_id=job)
        if named:
            assert table.append(data, on_overlap=policy, operation_id=job).already_applied
            self.model.land(after)
            self.landed(table, version=report.version)
        else:
            self.change(table, after, report)

    @rule(handle=handles, rows=rows_of, last=st.booleans())
    def upsert(self, handle: int, rows: list[Row], last: bool) -> None:
        table = self.writer(handle)
        data, rows = self.frame(table, rows if last else unique_by_key(rows), whole=True)
        report = table.upsert(data, on_duplicate="last" if last else "error")
        self.change(table, self.model.upsert(rows), report)

    @rule(handle=handles, span=spans, key=st.none() | keys, below=st.none() | st.integers(0, 9))
    def delete(self, handle: int, span: tuple[int, int], key: str | None, below: int | None) -> None:
        table = self.writer(handle)
        now = self.model.at(table.version)
        value = next((column for column in now.columns if column.number == VALUE), None)
        where = None if below is None or value is None else f"{value.name} < {below}"

        def takes(row: Row) -> bool:
            chosen = span[0] <= row[TS] < span[1] and key in (None, row[KEY])
            return chosen and (where is None or (row.get(VALUE) is not None and row[VALUE] < below))

        report = table.delete(where, start=span[0], end=span[1], entity=None if key is None else {"k": key})
        self.change(table, self.model.without(takes), report)

    @rule(handle=handles, span=spans, key=st.none() | keys, rows=rows_of)
    def replace(self, handle: int, span: tuple[int, int], key: str | None, rows: list[Row]) -> None:
        table = self.writer(handle)

        def takes(row: Row) -> bool:
            return span[0] <= row[TS] < span[1] and key in (None, row[KEY])

        data, rows = self.frame(table, [row for row in rows if takes(row)])
        report = table.replace(span, data, entity=None if key is None else {"k": key})
        self.change(table, self.model.without(takes) + rows, report)

    @rule(handle=handles, before=st.integers(-2 * WIDTH, WIDTH))
    def drop_before(self, handle: int, before: int) -> None:
        table = self.tables[handle]
        report = table.drop_before(before)
        self.change(table, self.model.without(lambda row: row[TS] < before), report)

    # -- care ----------------------------------------------------------------------------------------------------------

    @rule(handle=handles, resort=st.booleans())
    def compact(self, handle: int, resort: bool) -> None:
        table = self.tables[handle]
        report = table.compact(resort=resort)
        assert not report.given_up
        while self.model.newest < report.version:
            self.model.land()
        self.landed(table)

    @rule(handle=handles, days=st.sampled_from([0, 1, 7]))
    def vacuum(self, handle: int, days: int) -> None:
        table = self.tables[handle]
        report = table.vacuum(older_than=timedelta(days=days), dry_run=False)
        table.refresh()
        while self.model.newest < table.version:
            self.model.land()
        assert report is not None
        self.landed(table)

    @rule(handle=handles, keep=st.integers(1, 4), clean_log=st.booleans())
    def expire(self, handle: int, keep: int, clean_log: bool) -> None:
        table = self.tables[handle]
        table.refresh()
        newest, earliest = self.model.newest, self.model.earliest
        report = table.expire(keep_versions=keep, clean_log=clean_log)
        if newest - earliest >= keep:  # its own commit is one of those that stay
            self.model.earliest = newest + 2 - keep
        while self.model.newest < report.version:
            self.model.land()
        assert report.earliest == self.model.earliest
        self.landed(table)

    @rule(days=st.sampled_from([1, 2, 8]))
    def let_days_pass(self, days: int) -> None:
        self.timeline.pause(days * 86_400.0)

    # -- versions ------------------------------------------------------------------------------------------------------

    def kept(self, back: int) -> int:
        """The kept version that lies about so many before the newest."""
        kept = [version for version in range(1, self.model.newest + 1) if self.model.keeps(version)]
        return kept[max(0, len(kept) - 1 - back)]

    @rule(handle=handles, back=st.integers(0, 5))
    def restore(self, handle: int, back: int) -> None:
        table, version = self.tables[handle], self.kept(back)
        old = self.model.at(version)
        report = table.restore(version=version)
        if report.version > self.model.newest:
            self.model.land(old.rows, old.columns)
        assert old.counted() == self.model.now.counted()
        self.landed(table)

    @rule(handle=handles, back=st.integers(0, 3), name=st.sampled_from(["one", "two"]))
    def tag(self, handle: int, back: int, name: str) -> None:
        table, version = self.tables[handle], self.kept(back)
        table.tag(name, version, move=True)
        if table.version > self.model.newest:
            self.model.land()
        self.model.tags[name] = version
        assert table.tags == self.model.tags

    @precondition(lambda self: self.model.tags)
    @rule(handle=handles)
    def untag(self, handle: int) -> None:
        table, name = self.tables[handle], min(self.model.tags)
        table.untag(name)
        self.model.land()
        del self.model.tags[name]
        assert table.tags == self.model.tags

    @rule(handle=handles)
    def hold(self, handle: int) -> None:
        """Keep a view of this version, to be read at the end."""
        table = self.tables[handle]
        if self.model.keeps(table.version):
            self.held.append((table.version, table.at(version=table.version)))

    @rule(handle=handles, back=st.integers(0, 9))
    def look_back(self, handle: int, back: int) -> None:
        version = max(1, self.tables[handle].refresh().version - back)
        self.check_version(self.tables[handle], version)

    def check_version(self, table: TimeSeriesTable, version: int) -> None:
        if self.model.keeps(version):
            self.check(table.at(version=version), self.model.at(version))
        else:
            with pytest.raises(VersionNotFound):
                table.at(version=version)

    @rule(handle=handles, back=st.integers(0, 6))
    def replay_changes(self, handle: int, back: int) -> None:
        """The change feed, laid over the rows before, gives the rows after."""
        table = self.tables[handle].refresh()
        last = self.model.newest
        first = max(2, last - back, self.model.earliest + 1)
        if first <= last:
            self.check_changes(table, first, last)

    def check_changes(self, table: TimeSeriesTable, first: int, last: int) -> None:
        numbers = {c.number for c in self.model.now.columns}
        if any({c.number for c in self.model.at(v).columns} != numbers for v in range(first - 1, last)):
            return  # rows of versions with other columns are compared by the tests of the change feed
        rows = Counter(key_values(self.model.at(first - 1)))
        for change in table.changes(first, last).to_arrow().to_pylist():
            gone = change["_change_type"] in ("delete", "update_preimage")
            rows[change["ts"], change["k"]] += -1 if gone else 1
        assert +rows == Counter(key_values(self.model.at(last)))
        assert not -rows

    # -- columns -------------------------------------------------------------------------------------------------------

    @rule(handle=handles, kind=st.sampled_from(["int32", "string"]), default=st.booleans(), name=st.sampled_from(["a", "b"]))
    def add_column(self, handle: int, kind: str, default: bool, name: str) -> None:
        if any(column.name == name for column in self.model.now.columns):
            return
        value = {"int32": 7, "string": "d"}[kind] if default else None
        table = self.tables[handle]
        table.add_column(name, TYPES[kind], default=value)
        self.model.land(columns=self.model.add_column(name, kind, value))
        self.landed(table)

    def others(self) -> list[Column]:
        """The columns that are no keys."""
        return [column for column in self.model.now.columns if column.number >= VALUE]

    @precondition(lambda self: self.others())
    @rule(handle=handles, pick=st.integers(0, 5), name=st.sampled_from(["a", "b", "c", "v"]))
    def rename_column(self, handle: int, pick: int, name: str) -> None:
        column = self.others()[pick % len(self.others())]
        if any(other.name == name for other in self.model.now.columns):
            return
        table = self.tables[handle]
        table.rename_column(column.name, name)
        self.model.land(columns=self.model.changed(column.name, name=name))
        self.landed(table)

    @precondition(lambda self: self.others())
    @rule(handle=handles, pick=st.integers(0, 5))
    def drop_column(self, handle: int, pick: int) -> None:
        column = self.others()[pick % len(self.others())]
        table = self.tables[handle]
        table.drop_column(column.name)
        self.model.land(columns=tuple(other for other in self.model.now.columns if other != column))
        self.landed(table)

    @precondition(lambda self: any(column.type == "int32" for column in self.others()))
    @rule(handle=handles)
    def widen_column(self, handle: int) -> None:
        column = next(column for column in self.others() if column.type == "int32")
        table = self.tables[handle]
        table.widen_column(column.name, pa.int64())
        self.model.land(columns=self.model.changed(column.name, type="int64"))
        self.landed(table)

    # -- what always holds -----------------------------------------------------------------------------------------------

    @rule(handle=handles)
    def refresh(self, handle: int) -> None:
        table = self.tables[handle].refresh()
        self.landed(table)

    @rule(handle=handles)
    def open_again(self, handle: int) -> None:
        self.tables[handle] = self.open()
        self.landed(self.tables[handle])
        assert self.tables[handle].tags == self.model.tags

    @invariant()
    def nothing_is_damaged(self) -> None:
        if hasattr(self, "tables") and self.random.random() < 0.25:
            report = self.tables[0].verify(deep=True)
            assert report.ok, report

    def teardown(self) -> None:
        if not hasattr(self, "tables") or sys.exc_info()[0] is not None:
            return
        table = self.open()
        self.landed(table)
        assert table.verify(deep=True).ok
        for version in range(1, self.model.newest + 1):
            self.check_version(table, version)
        for version, view in self.held:
            if self.model.keeps(version):
                self.check(view, self.model.at(version))
        history = [entry.version for entry in table.history()]
        assert history == list(range(history[0], self.model.newest + 1))
        if self.model.earliest < self.model.newest:
            self.check_changes(table, self.model.earliest + 1, self.model.newest)


def rows_in(table: pa.Table, version: Version) -> Counter[tuple[Any, ...]]:
    """A scan's rows, with the columns as the model has them."""
    assert table.schema.names == [column.name for column in version.columns]
    assert table.schema.types == [TYPES[column.type] for column in version.columns]
    return Counter(zip(*(column.to_pylist() for column in table.columns), strict=True))


def key_values(version: Version) -> Iterable[tuple[int, str]]:
    return ((row[TS], row[KEY]) for row in version.rows)


class LocalLife(TableLife):
    """The same on a disk, where DuckDB and timeseries-table-format read the files too."""

    on_disk = True

    def make_store(self) -> Store:
        self.folder = tempfile.TemporaryDirectory()
        return LocalStore(Path(self.folder.name) / "t")

    @property
    def root(self) -> Path:
        return Path(self.folder.name) / "t"

    @rule()
    def duckdb_reads_the_same(self) -> None:
        """Over the live files, whose keys keep their names, and the others theirs while no column was changed."""
        table = self.tables[0].refresh()
        paths = [str(self.root / segment.path) for segment in table.segments()]
        plain = all(version.columns == FIRST for version in self.model.versions)
        names = "ts, k, v" if plain else "ts, k"
        query = f"SELECT {names} FROM read_parquet(?)"
        rows = duckdb.connect().execute(query, [paths]).fetchall() if paths else []
        wanted = self.model.now.counted() if plain else Counter(key_values(self.model.now))
        assert Counter(rows) == wanted

    @rule()
    def another_reader_reads_the_same(self) -> None:
        """timeseries-table-format 0.9.0, or it refuses what the table's reader features say it must."""
        known = self.tables[0].refresh()._snapshot.state.meta.reader_features
        features = [name for name in known if name.startswith("gapless")]
        session = ttf.Session()
        if features:
            # It replays from commit 1: where the log was cleaned of that, it gets no further.
            first = "0000000001.json"
            told = min(features) if (self.root / "_timeseries_log" / first).exists() else re.escape(first)
            with pytest.raises(ttf.TimeseriesTableError, match=told):
                session.register_tstable("t", str(self.root))
            return
        session.register_tstable("t", str(self.root))
        rows = pa.table(session.sql("select ts, k from t")).to_pylist()
        assert Counter((row["ts"], row["k"]) for row in rows) == Counter(key_values(self.model.now))

    def teardown(self) -> None:
        try:
            super().teardown()
        finally:
            self.folder.cleanup()


CI = settings(
    max_examples=30,
    stateful_step_count=20,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


def test_the_life_of_a_table_in_memory() -> None:
    run_state_machine_as_test(TableLife, settings=CI)


def test_the_life_of_a_table_on_a_disk() -> None:
    run_state_machine_as_test(LocalLife, settings=settings(CI, max_examples=12))


@pytest.mark.soak
@pytest.mark.parametrize("machine", [TableLife, LocalLife])
def test_very_long_lives_of_tables(machine: type[TableLife]) -> None:
    run_state_machine_as_test(machine, settings=settings(CI, max_examples=600, stateful_step_count=50))
