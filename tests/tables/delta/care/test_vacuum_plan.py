"""Which files of a Delta table may go, and why the others stay."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from msgspec import structs

from gapless.formats.delta.actions import AddFile, CdcFile, Commit, DeletionVector, Metadata, Protocol, RemoveFile, TableState
from gapless.formats.delta.deletion_vector import vector_path
from gapless.formats.delta.schema.types import PrimitiveType, StructField, StructType
from gapless.model.instant import NS_PER_DAY
from gapless.model.protocols import ObjectInfo
from gapless.tables.delta.care.vacuum_plan import (
    FileOutsideTable,
    is_written_here,
    nested_tables,
    paths_needed,
    place_of,
    plan_vacuum,
)
from gapless.tables.shared.vacuum import Limits

DAY_MS = 86_400_000
NOW = 100 * NS_PER_DAY
UUID = "d2c639aa-8816-431a-aaf6-d3fe2512ff61"
OTHER = "0a6be498-12f4-474d-a087-593efa1f8c4d"
PART = f"part-00000-{UUID}-c000.snappy.parquet"
VECTOR = DeletionVector(storage="u", path_or_inline="ab^-aqEH.-t@S}K{vb[*k^", offset=4, size=40, cardinality=6)
VECTOR_FILE = f"ab/deletion_vector_{UUID}.bin"

ROOT = "s3://bucket/lake/t"


def state(*live: AddFile, gone: Sequence[RemoveFile] = (), partition_by: tuple[str, ...] = ("day",)) -> TableState:
    fields = tuple(StructField(name=name, type=PrimitiveType("string")) for name in ("day", "_hour", "x"))
    metadata = Metadata(id="m", schema=StructType(fields=fields), partition_by=partition_by)
    return TableState(
        protocol=Protocol(reader=1, writer=2),
        metadata=metadata,
        files={file.key: file for file in live},
        removed={file.key: file for file in gone},
    )


def add(path: str, vector: DeletionVector | None = None) -> AddFile:
    return AddFile(path=path, size=1, modified_ms=0, deletion_vector=vector)


def removed(path: str, days_ago: float | None, vector: DeletionVector | None = None) -> RemoveFile:
    deleted = None if days_ago is None else int((100 - days_ago) * DAY_MS)
    return RemoveFile(path=path, deleted_ms=deleted, deletion_vector=vector)


def fate(
    path: str,
    table: TableState,
    *,
    entries: Sequence[tuple[int, Commit, int]] = (),
    written_days_ago: float = 50,
    older_than_days: float = 7,
    beside: Sequence[str] = (),
    linked: frozenset[str] = frozenset(),
) -> str:
    written = int(NOW - written_days_ago * NS_PER_DAY)
    stored = [ObjectInfo(path=one, size=1, modified_ns=written) for one in (path, *beside)]
    limits = Limits(now_ns=NOW, older_than_ns=int(older_than_days * NS_PER_DAY), horizon_ns=NS_PER_DAY)
    entries_ = plan_vacuum(table, entries, stored, limits, root=ROOT, linked=linked)
    return next(entry.reason for entry in entries_ if entry.path == path)


def commit(version: int, days_ago: float, *actions: AddFile | RemoveFile | CdcFile) -> tuple[int, Commit, int]:
    return version, Commit(id="c", operation="WRITE", actions=actions), int(NOW - days_ago * NS_PER_DAY)


def test_live_files_stay_whatever_their_name_and_age() -> None:
    assert fate("any.file", state(add("any.file"))) == "live"


@pytest.mark.parametrize(("days_ago", "reason"), [(6.9, "retained"), (7.1, "expired"), (None, "expired")])
def test_a_removed_file_goes_by_the_time_that_the_log_says(days_ago: float | None, reason: str) -> None:
    table = state(gone=[removed("x.parquet", days_ago)])
    assert fate("x.parquet", table, written_days_ago=0) == reason, "not by when it was written"


def test_a_file_that_only_an_old_commit_still_names_goes() -> None:
    entries = [commit(3, 60, add("x.parquet")), commit(4, 50, removed("x.parquet", None))]
    assert fate("x.parquet", state(), entries=entries) == "expired"
    assert fate("x.parquet", state()) == "unknown", "nobody names it, and any file may be called so"


def test_a_file_that_is_live_again_is_live() -> None:
    entries = [commit(4, 50, removed(PART, 50)), commit(5, 40, add(PART))]
    assert fate(PART, state(add(PART), gone=[removed(PART, 50, VECTOR)]), entries=entries) == "live"


@pytest.mark.parametrize(
    ("logged", "stored"),
    [
        ("day=%C3%BC%2520x/a.parquet", "day=ü%20x/a.parquet"),
        ("day=a%252Fb/a.parquet", "day=a%2Fb/a.parquet"),
        ("./day=a//x.parquet", "day=a/x.parquet"),
    ],
)
def test_paths_are_compared_as_the_store_has_them(logged: str, stored: str) -> None:
    assert fate(stored, state(add(logged))) == "live"


@pytest.mark.parametrize(
    "spelled",
    [
        "s3a://bucket/lake/t/x.parquet", "s3://bucket//lake/t/./x.parquet", "s3n://bucket/lake/t//x.parquet", "S3://bucket/lake/t/x.parquet",
        "/lake/t/x.parquet",
    ],
)  # fmt: skip
def test_maint_07_delta_another_spelling_of_the_root_is_the_root(spelled: str) -> None:
    assert place_of(spelled, ROOT) == "x.parquet"
    assert fate("x.parquet", state(add(spelled), gone=[removed("x.parquet", 50)])) == "live"


def test_maint_07_delta_a_live_file_under_a_foreign_name_of_the_place_is_no_candidate() -> None:
    """Another host for the same bucket, say: files of that name stay, whatever they are."""
    foreign = f"s3://alias.example/t/{PART}"
    assert place_of(foreign, ROOT) == FileOutsideTable(PART)
    assert fate(PART, state(add(foreign))) == "live"
    assert fate(PART, state(gone=[removed(foreign, 50)])) == "orphan", "nobody needs one that was removed long ago"


@pytest.mark.parametrize(("days_ago", "reason"), [(0.5, "in-flight"), (2, "recent"), (8, "orphan")])
def test_maint_08_delta_what_was_never_committed_stays_while_its_writer_may_be_at_work(days_ago: float, reason: str) -> None:
    for name in (PART, f"day=1/{PART}", f"_change_data/cdc-00000-{UUID}.c000.snappy.parquet", VECTOR_FILE):
        assert fate(name, state(), written_days_ago=days_ago) == reason, name
    assert fate(PART, state(), written_days_ago=0.5, older_than_days=0) == "in-flight"


@pytest.mark.parametrize(
    "name",
    [
        "README.md", "data.parquet", f"{UUID}.parquet", f"_tmp/{PART}", f".cache/{PART}", f"_x/{VECTOR_FILE}", f".{PART}", f"_change_data/{UUID}.csv",
        f"export/{PART}", f"other=1/{PART}", f"day=1/x/{PART}", f"part-00000-{UUID}.crc", "_delta_index/x", "metadata/00000.json", f"a/b/deletion_vector_{UUID}.bin",
        f"deletion_vector_{UUID}.bin.bak",
    ],
)  # fmt: skip
def test_maint_08_delta_other_files_and_hidden_folders_are_never_touched(name: str) -> None:
    assert fate(name, state(), written_days_ago=99) == "unknown"


def test_partition_folders_may_begin_with_an_underscore() -> None:
    table = state(partition_by=("_hour",))
    assert fate(f"_hour=1/{PART}", table) == "orphan"
    assert fate(f"_hour=1/{PART}", state()) == "unknown", "no partition column of this table"
    assert fate("_hour=1/x.parquet", state(add("_hour=1/x.parquet"), partition_by=("_hour",))) == "live"


@pytest.mark.parametrize(
    "log", ["_delta_log/00000000000000000000.json", "_timeseries_log/1.json", ".hoodie/x", "metadata/00000-x.metadata.json"]
)
def test_a_table_that_lies_in_this_ones_folder_is_not_ours(log: str) -> None:
    inner = f"day=1/{PART}"
    assert fate(inner, state(), beside=[f"day=1/{log}"]) == "unknown"
    assert fate(inner, state(gone=[removed(inner, 50)]), beside=[f"day=1/{log}"]) == "unknown", "even where our log names it"
    assert fate(inner, state(), beside=[f"day=2/{log}", log]) == "orphan"
    assert nested_tables([f"a/b/{log}", log]) == {"a/b"}


def test_what_lies_beyond_a_link_is_not_ours() -> None:
    assert fate(f"day=1/{PART}", state(), linked=frozenset({"day=1"})) == "unknown"


@pytest.mark.parametrize(("days_ago", "reason"), [(6, "retained"), (8, "expired")])
def test_change_files_go_with_their_commit(days_ago: float, reason: str) -> None:
    entries = [commit(3, days_ago, CdcFile(path="_change_data/c.parquet", size=1))]
    assert fate("_change_data/c.parquet", state(), entries=entries) == reason
    untimed = [(version, entry, 0) for version, entry, _ in entries]
    assert fate("_change_data/c.parquet", state(), entries=untimed) == "retained", "as long as no commit says a time"


@pytest.mark.parametrize(("days_ago", "reason"), [(6, "retained"), (8, "expired")])
def test_a_deletion_vector_shares_the_fate_of_its_logical_file(days_ago: float, reason: str) -> None:
    assert vector_path(VECTOR) == VECTOR_FILE
    gone = state(add("x.parquet"), gone=[removed("x.parquet", days_ago, VECTOR)])
    assert (fate(VECTOR_FILE, gone), fate("x.parquet", gone)) == (reason, "live")
    assert fate(VECTOR_FILE, state(add("y.parquet", VECTOR), gone=[removed("x.parquet", days_ago, VECTOR)])) == "live"
    absolute = structs.replace(VECTOR, storage="p", path_or_inline=f"{ROOT}/{VECTOR_FILE}")
    assert fate(VECTOR_FILE, state(add("y.parquet", absolute))) == "live"


def test_unfinished_writes_of_ours_go_by_their_age() -> None:
    name = "day=1/.0123456789abcdef.tmp"
    assert fate(name, state(), written_days_ago=0.1) == "in-flight"
    assert fate(name, state(), written_days_ago=8) == "orphan"


def test_the_newest_version_that_needs_a_file_is_told() -> None:
    entries = [commit(4, 3, removed(PART, 3))]
    limits = Limits(now_ns=NOW, older_than_ns=7 * NS_PER_DAY, horizon_ns=NS_PER_DAY)
    stored = [ObjectInfo(path=PART, size=9, modified_ns=0)]
    (entry,) = plan_vacuum(state(gone=[removed(PART, 3)]), entries, stored, limits, root=ROOT)
    assert (entry.reason, entry.version, entry.size, entry.goes) == ("retained", 3, 9, False)


def test_every_file_that_a_commit_needs_is_named() -> None:
    changed = CdcFile(path="_change_data/c.parquet", size=1)
    _, needs, _ = commit(1, 0, add("a.parquet", VECTOR), add(f"{ROOT}/b.parquet"), add("s3://other/c.parquet"), changed)
    assert set(paths_needed(needs, ROOT)) == {"a.parquet", VECTOR_FILE, "b.parquet", "_change_data/c.parquet"}


def test_the_names_that_writers_give() -> None:
    ours = f"part-00000-{OTHER}.zstd.parquet"
    assert is_written_here(ours, ())
    assert is_written_here(f"day=a%20b/{ours}", ("day",))
    assert is_written_here(f"_change_data/day=1/cdc-00001-{OTHER}.zstd.parquet", ("day",))
    assert is_written_here(f"{'0f' * 16}/{ours}", ("day",)), "a folder whose name was too long"
    assert not is_written_here(f"{'0f' * 16}/{ours}", ())
