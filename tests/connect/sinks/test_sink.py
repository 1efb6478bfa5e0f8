"""Sinks into both kinds of tables: nothing is seen before finalize, all of it once after, by whichever process."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import gapless as gl
from gapless.connect import PreparedCommit, Sink, sink
from gapless.errors import (
    CommitConflict,
    CoverageOverlap,
    InvalidOption,
    InvalidValue,
    PreparedFilesMissing,
    SchemaMismatch,
    StoreUnavailable,
    TableNotFound,
    VersionNotFound,
)
from gapless.store.local.store import LocalStore
from gapless.tables.shared.prepared import require_not_aborted
from support.pipelines import KINDS, SCHEMA, made, opened, rows


def unavailable(*_: object, **__: object) -> None:
    raise StoreUnavailable("no answer")


def values(kind: str, path: Path) -> list[int]:
    return sorted(opened(kind, path).scan().to_arrow()["v"].to_pylist())


def new_sink(kind: str, path: Path, pipeline: str = "orders", **options: Any) -> Sink:
    made_sink = sink(f"{kind}:{path}", pipeline=pipeline, name="main", **options)
    made_sink.initialize(SCHEMA)
    return made_sink


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def path(kind: str, tmp_path: Path) -> Path:
    made(kind, tmp_path / "t")
    return tmp_path / "t"


def test_rows_are_durable_and_unseen_until_they_are_finalized(kind: str, path: Path) -> None:
    mine = new_sink(kind, path)
    assert mine.write(rows(0, 3)) == 3
    mine.write_batch(rows(3, 2).to_batches()[0])
    prepared = mine.prepare(1)
    assert (prepared.checkpoint_id, prepared.records_written, len(prepared.data_files)) == (1, 5, 1)
    assert prepared.bytes_written == sum((path / file).stat().st_size for file in prepared.data_files)
    assert values(kind, path) == []
    assert sum(pq.read_metadata(path / file).num_rows for file in prepared.data_files) == 5
    info = mine.finalize(PreparedCommit.from_json(prepared.to_json()))
    assert values(kind, path) == [0, 1, 2, 3, 4]
    assert (info.checkpoint_id, info.version, info.already_committed) == (1, opened(kind, path).version, False)
    assert info.commit_timestamp is not None
    assert abs(info.commit_timestamp - datetime.now(UTC)) < timedelta(hours=1)


def test_eo_07_finalize_is_idempotent_from_any_process(kind: str, path: Path) -> None:
    mine = new_sink(kind, path)
    mine.write(rows(0, 3))
    first = mine.prepare(1)
    mine.write(rows(3, 3))
    second = mine.prepare(2)
    infos = [mine.finalize(one) for one in (first, second)]
    table = opened(kind, path)
    for again in range(3):
        table.append(rows(100 + again, 1))
    other = new_sink(kind, path)
    for prepared, info in zip((first, second), infos, strict=True):
        found = other.finalize(prepared)
        assert found.already_committed
        assert found.version in {info.version, infos[1].version}
    table.refresh().compact()
    assert other.finalize(second).already_committed
    assert values(kind, path) == [0, 1, 2, 3, 4, 5, 100, 101, 102]
    assert not list((path / "_prepared").rglob("*.json"))


def test_abort_removes_the_files_and_never_what_was_committed(kind: str, path: Path) -> None:
    mine = new_sink(kind, path)
    mine.write(rows(0, 3))
    prepared = mine.prepare(1)
    assert mine.pending() == [prepared]
    assert mine.abort(prepared)
    assert mine.pending() == []
    assert not any((path / file).exists() for file in prepared.needs)
    with pytest.raises(PreparedFilesMissing) as caught:
        mine.finalize(prepared)
    assert set(caught.value.paths) == set(prepared.needs)
    mine.write(rows(0, 3))
    committed = mine.prepare(2)
    mine.finalize(committed)
    assert not mine.abort(committed)
    assert values(kind, path) == [0, 1, 2]


def test_files_that_another_engine_deleted_are_named_and_nothing_is_committed(kind: str, path: Path) -> None:
    mine = new_sink(kind, path)
    mine.write(rows(0, 3))
    prepared = mine.prepare(1)
    version = opened(kind, path).version
    (path / prepared.data_files[0]).unlink()
    with pytest.raises(PreparedFilesMissing, match=prepared.data_files[0]):
        mine.finalize(prepared)
    assert opened(kind, path).version == version


def test_rows_given_up_before_prepare_leave_nothing(kind: str, path: Path) -> None:
    mine = new_sink(kind, path, spill_bytes=1)
    mine.write(rows(0, 3))
    mine.close()
    assert mine.prepare(1).records_written == 0
    assert values(kind, path) == []
    assert not [one for one in path.rglob("*.parquet") if "_log" not in str(one)]


def test_eo_05_two_pipelines_and_a_new_generation_never_see_each_other(kind: str, path: Path) -> None:
    for number, mine in enumerate(
        (new_sink(kind, path), new_sink(kind, path, "returns"), new_sink(kind, path, generation=2)), start=1
    ):
        mine.write(rows(number * 10, 1))
        assert not mine.finalize(mine.prepare(1)).already_committed
    assert values(kind, path) == [10, 20, 30]


def test_a_commit_of_another_sink_is_not_finalized(kind: str, path: Path) -> None:
    mine = new_sink(kind, path)
    mine.write(rows(0, 1))
    prepared = mine.prepare(1)
    for act in (new_sink(kind, path, "returns").finalize, new_sink(kind, path, generation=2).abort):
        with pytest.raises(InvalidOption, match=r"orders/main#1"):
            act(prepared)
    assert mine.finalize(prepared).version == opened(kind, path).version


def test_checkpoints_are_finalized_in_order_and_numbers_only_grow(kind: str, path: Path) -> None:
    mine = new_sink(kind, path)
    mine.write(rows(0, 1))
    first = mine.prepare(1)
    mine.write(rows(1, 1))
    second = mine.prepare(2)
    with pytest.raises(CommitConflict, match="checkpoint 1"):
        mine.finalize(second)
    assert values(kind, path) == []
    with pytest.raises(InvalidOption, match="counted upward"):
        mine.prepare(2)
    mine.finalize(first)
    mine.finalize(second)
    assert values(kind, path) == [0, 1]


def test_a_row_that_does_not_fit_is_refused_when_it_is_written_and_the_others_go_on(kind: str, path: Path) -> None:
    mine = new_sink(kind, path)
    mine.write(rows(0, 2))
    with pytest.raises(SchemaMismatch, match="was not told"):
        mine.write(rows(2, 1).append_column("new", pa.array([1])))
    null = rows(2, 1).set_column(0, SCHEMA.field(0).with_nullable(True), pa.array([None], SCHEMA.field(0).type))
    with pytest.raises((InvalidValue, gl.DataError)):
        mine.write(null)
    mine.write(rows(2, 1))
    mine.finalize(mine.prepare(1))
    assert values(kind, path) == [0, 1, 2]


@pytest.mark.parametrize("mode", ["upsert", "overwrite"])
def test_other_changes_are_decided_against_the_newest_version(kind: str, path: Path, mode: str) -> None:
    table = opened(kind, path)
    table.append(rows(0, 5))
    options: dict[str, Any] = {"mode": mode, "key": ["id"]} if mode == "upsert" else {"mode": mode}
    mine = new_sink(kind, path, **options)
    mine.write(rows(10, 2))
    mine.write(rows(15, 1))
    prepared = mine.prepare(1)
    assert values(kind, path) == [0, 1, 2, 3, 4]
    table.append(rows(20, 2).set_column(1, SCHEMA.field(1), pa.array([20, 21])))
    assert not mine.finalize(prepared).already_committed
    # Keys 0 and 1: the last of the input stands.
    assert values(kind, path) == ([2, 3, 4, 11, 15, 20, 21] if mode == "upsert" else [10, 11, 15])
    table.refresh().append(rows(30, 1))
    assert new_sink(kind, path, **options).finalize(prepared).already_committed
    assert 30 in values(kind, path)
    assert not list((path / "_prepared").rglob("*.*"))


def test_a_missing_table_is_made_only_where_it_is_told_how(kind: str, tmp_path: Path) -> None:
    place = tmp_path / "new"
    with pytest.raises(TableNotFound, match="only where it is told how"):
        new_sink(kind, place)
    create: dict[str, Any] = {} if kind == "delta" else {"index": "ts", "bucket": "1h"}
    mine = new_sink(kind, place, create=create)
    mine.write(rows(0, 1))
    mine.finalize(mine.prepare(1))
    assert values(kind, place) == [0]


def test_an_error_that_is_not_a_missing_table_makes_none(kind: str, path: Path) -> None:
    log = path / ("_delta_log" if kind == "delta" else "_timeseries_log")
    for file in log.iterdir():
        if file.name != "CURRENT":
            file.write_bytes(b"{")
    with pytest.raises(gl.GaplessError) as caught:
        new_sink(kind, path, create={} if kind == "delta" else {"index": "ts", "bucket": "1h"})
    assert not isinstance(caught.value, TableNotFound)


def test_a_table_that_was_made_anew_is_not_the_one_it_was_prepared_for(kind: str, path: Path) -> None:
    mine = new_sink(kind, path)
    mine.write(rows(0, 1))
    prepared = mine.prepare(1)
    path.rename(path.with_name("old"))
    made(kind, path)
    with pytest.raises(VersionNotFound, match="another one made in its place"):
        new_sink(kind, path).finalize(prepared)
    assert values(kind, path) == []


def test_columns_that_changed_since_are_those_of_the_table(kind: str, path: Path) -> None:
    mine = new_sink(kind, path)
    mine.write(rows(0, 2))
    prepared = mine.prepare(1)
    table = opened(kind, path)
    if kind == "delta":
        table.alter.add_column("w", pa.int32())
    else:
        table.add_column("w", pa.int32())
    mine.finalize(prepared)
    assert values(kind, path) == [0, 1]
    assert opened(kind, path).scan(columns=["w"]).to_arrow()["w"].to_pylist() == [None, None]
    assert opened(kind, path).verify(deep=True).ok


def test_time_series_rows_that_meet_others_are_judged_by_the_policy(tmp_path: Path) -> None:
    table = made("timeseries", tmp_path / "t")
    table.append(rows(0, 2))
    mine = new_sink("timeseries", tmp_path / "t", on_overlap="reject")
    mine.write(rows(1, 2))
    with pytest.raises(CoverageOverlap):
        mine.prepare(1)
    mine.close()
    skipping = new_sink("timeseries", tmp_path / "t", "other", on_overlap="skip")
    skipping.write(rows(1, 2))
    skipping.finalize(skipping.prepare(1))
    assert values("timeseries", tmp_path / "t") == [0, 1, 2]


def test_checkpoints_that_fall_into_one_bucket_are_all_added(kind: str, tmp_path: Path) -> None:
    made(kind, tmp_path / "t")
    mine, other = new_sink(kind, tmp_path / "t"), new_sink(kind, tmp_path / "t", "other")
    for number in (1, 2):
        for one in (mine, other):
            one.write(rows(0, 1))
            one.finalize(one.prepare(number))
    assert values(kind, tmp_path / "t") == [0, 0, 0, 0]


def test_rows_of_a_write_that_failed_are_not_taken(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made(kind, tmp_path / "t")
    mine = new_sink(kind, tmp_path / "t", spill_bytes=1)
    mine.write(rows(0, 1))

    with monkeypatch.context() as patched:
        patched.setattr(LocalStore, "settle", unavailable)
        with pytest.raises(StoreUnavailable):
            mine.write(rows(1, 2))
    mine.write(rows(1, 2))
    mine.finalize(mine.prepare(1))
    assert values(kind, tmp_path / "t") == [0, 1, 2]


@pytest.mark.parametrize("mode", ["append", "upsert"])
@pytest.mark.parametrize("step", ["begin_deferred", "settle", "put_after"])
def test_a_prepare_that_failed_leaves_nothing_and_made_again_has_all_rows(
    kind: str, step: str, mode: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "t"
    made(kind, place)
    options: dict[str, Any] = {"key": ["ts"]} if mode == "upsert" else {}
    mine = new_sink(kind, place, spill_bytes=rows(0, 3).nbytes, mode=mode, **options)
    mine.write(rows(0, 3))  # is staged at once
    before = sorted(place.rglob("*"))
    with monkeypatch.context() as patched:
        patched.setattr(LocalStore, step, unavailable)
        if step == "settle":
            patched.setattr(LocalStore, "put_after", unavailable)
        mine.write(rows(3, 1))
        with pytest.raises(StoreUnavailable):
            mine.prepare(1)
    assert [path for path in sorted(place.rglob("*")) if path not in before and path.is_file()] == []
    prepared = mine.prepare(1)
    assert prepared.records_written == 4
    mine.finalize(prepared)
    assert values(kind, place) == [0, 1, 2, 3]
    assert opened(kind, place).verify(deep=True).ok


def test_a_document_whose_answer_is_lost_names_nothing_that_is_gone(
    kind: str, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = new_sink(kind, path)
    mine.write(rows(0, 3))
    put_after = LocalStore.put_after

    def lost(*given: Any) -> None:
        put_after(*given)
        raise StoreUnavailable("no answer")

    with monkeypatch.context() as patched:
        patched.setattr(LocalStore, "put_after", lost)
        with pytest.raises(StoreUnavailable):
            mine.prepare(1)
    assert mine.pending() == []
    prepared = mine.prepare(2)
    assert mine.pending() == [prepared]
    mine.finalize(prepared)
    assert values(kind, path) == [0, 1, 2]


@pytest.mark.parametrize("mode", ["append", "upsert"])
def test_the_abort_of_a_document_that_comes_late_takes_no_file_of_the_next_one(
    kind: str, mode: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "t"
    made(kind, place)
    options: dict[str, Any] = {"key": ["ts"]} if mode == "upsert" else {}
    mine = new_sink(kind, place, spill_bytes=1, target_bytes=1, mode=mode, **options)
    mine.write(rows(0, 3))  # is staged at once, in a file that both documents name
    put, late = LocalStore.put, []

    def unanswered(store: LocalStore, path: str, data: Any, **how: Any) -> Any:
        if not path.endswith(".json"):
            return put(store, path, data, **how)
        late.append((path, bytes(data)))
        raise StoreUnavailable("no answer")

    with monkeypatch.context() as patched:
        patched.setattr(LocalStore, "put", unanswered)
        patched.setattr(LocalStore, "put_after", unanswered)
        with pytest.raises(StoreUnavailable):
            mine.prepare(1)
    prepared = mine.prepare(1)
    ((document, data),) = late
    (place / document).write_bytes(data)
    first = PreparedCommit.from_json(data)
    assert set(first.needs) & set(prepared.needs)
    restarted = new_sink(kind, place, mode=mode, **options)
    assert restarted.abort(first)
    restarted.finalize(prepared)
    assert values(kind, place) == [0, 1, 2]
    assert restarted.pending() == []
    assert opened(kind, place).verify(deep=True).ok


def test_a_finalization_that_fails_beside_another_one_is_answered_by_the_log(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other one commits, and removes the document, between the look at the log and that at the document."""
    made(kind, tmp_path / "t")
    mine, theirs = new_sink(kind, tmp_path / "t"), new_sink(kind, tmp_path / "t")
    mine.write(rows(0, 3))
    prepared = mine.prepare(1)

    def finalized(*given: Any) -> None:
        monkeypatch.undo()
        theirs.finalize(prepared)
        require_not_aborted(*given)

    monkeypatch.setattr(mine, "_commit", unavailable)
    monkeypatch.setattr("gapless.connect.sinks.table_sink.require_not_aborted", finalized)
    assert mine.finalize(prepared).already_committed
    assert values(kind, tmp_path / "t") == [0, 1, 2]


@pytest.mark.parametrize("name", ["", "a/b", "a#1", "gapless.x", "spark:x", "x" * 201, "tab\there", None])
def test_names_that_a_log_cannot_keep_apart_are_refused(name: Any) -> None:
    with pytest.raises(InvalidOption):
        sink("delta:t", pipeline=name, name="main")


@pytest.mark.parametrize(
    ("url", "options"),
    [("t", {}), ("parquet:t", {}), ("delta:", {}), ("delta:t", {"mode": "merge"}), ("delta:t", {"on_overlap": "skip"})],
)
def test_options_that_are_not_known_are_named(url: str, options: dict[str, Any]) -> None:
    with pytest.raises(InvalidOption):
        sink(url, pipeline="p", name="s", **options)


def test_a_document_that_was_altered_is_no_prepared_commit(kind: str, path: Path) -> None:
    mine = new_sink(kind, path)
    mine.write(rows(0, 1))
    text = mine.prepare(1).to_json()
    for altered in (text[:-5], text.replace('"rows": 1', '"rows": 2'), "{}", "[]", text.replace('"format": 1', '"format": 2')):
        with pytest.raises(gl.TableError):
            PreparedCommit.from_json(altered)


def test_slices_of_a_large_batch_are_held_as_what_they_are_and_not_staged_one_by_one(kind: str, path: Path) -> None:
    (whole,) = rows(0, 1000).to_batches()
    mine = new_sink(kind, path, spill_bytes=whole.nbytes * 2)
    for first in range(0, 1000, 10):
        mine.write(whole.slice(first, 10))
    prepared = mine.prepare(1)
    assert (prepared.records_written, len(prepared.data_files)) == (1000, 1)
