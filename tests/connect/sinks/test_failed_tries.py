"""A checkpoint whose document was stored, though its prepare failed: the rows are in the next one, once, and nothing waits for the first."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from gapless.connect import PreparedCommit, Sink, sink
from gapless.connect.sinks import aborted
from gapless.errors import CommitConflict, OperationReused, PreparedFilesMissing, StoreUnavailable
from gapless.store.local.store import LocalStore
from support.pipelines import SCHEMA, SINK_KINDS, made, opened, rows


@pytest.fixture(params=SINK_KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=["append", "upsert"])
def mode(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def place(kind: str, tmp_path: Path) -> Path:
    made(kind, tmp_path / "t")
    return tmp_path / "t"


def new_sink(kind: str, place: Path, mode: str) -> Sink:
    """One that stages each row at once, so that both tries name its files."""
    options: dict[str, Any] = {"key": ["ts"]} if mode == "upsert" else {}
    found = sink(f"{kind}:{place}", pipeline="p", name="n", spill_bytes=1, target_bytes=1, mode=mode, **options)
    found.initialize(SCHEMA)
    return found


def below(kind: str, place: Path) -> Path:
    """The folder in which prepared commits lie."""
    return place / ".hoodie" / "gapless" if kind == "hudi" else place


def values(kind: str, place: Path) -> list[int]:
    table = opened(kind, place)
    assert table.verify(deep=True).ok
    return sorted(table.scan().to_arrow()["v"].to_pylist())


def is_document(path: str) -> bool:
    """Of a prepared commit, or a commit. A Hudi attempt's is neither: where it is not stored, nothing was begun."""
    return path.endswith(".json") and "/attempts/" not in path


@contextmanager
def answers_lost() -> Iterator[None]:
    """Documents are stored without an answer, and cannot be removed."""
    put_after, put, delete = LocalStore.put_after, LocalStore.put, LocalStore.delete

    def lost_after(*given: Any) -> None:
        put_after(*given)
        raise StoreUnavailable("no answer")

    def lost(store: LocalStore, path: str, data: Any, **how: Any) -> Any:
        found = put(store, path, data, **how)
        if is_document(path):
            raise StoreUnavailable("no answer")
        return found

    def refused(store: LocalStore, path: str) -> None:
        if is_document(path):
            raise StoreUnavailable("no answer")
        delete(store, path)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(LocalStore, "put_after", lost_after)
        patched.setattr(LocalStore, "put", lost)
        patched.setattr(LocalStore, "delete", refused)
        yield


def failed(mine: Sink) -> PreparedCommit:
    """Rows that are staged, and the document of a prepare that failed."""
    mine.write(rows(0, 3))
    with answers_lost(), pytest.raises(StoreUnavailable):
        mine.prepare(1)
    (found,) = mine.pending()
    return found


@pytest.mark.parametrize("number", [1, 2])
def test_the_next_try_takes_the_first_document_back(kind: str, mode: str, place: Path, number: int) -> None:
    mine = new_sink(kind, place, mode)
    failed(mine)
    mine.write(rows(3, 2))
    prepared = mine.prepare(number)
    assert mine.pending() == [prepared]
    mine.finalize(prepared)
    assert values(kind, place) == [0, 1, 2, 3, 4]


def test_an_abort_of_the_first_document_leaves_rows_that_are_to_be_prepared_again(kind: str, mode: str, place: Path) -> None:
    mine = new_sink(kind, place, mode)
    assert mine.abort(failed(mine))
    mine.finalize(mine.prepare(1))
    assert values(kind, place) == [0, 1, 2]


def test_what_is_given_up_leaves_no_document_that_later_checkpoints_wait_for(kind: str, mode: str, place: Path) -> None:
    mine = new_sink(kind, place, mode)
    first = failed(mine)
    mine.abort(None)
    assert mine.pending() == []
    assert not any((below(kind, place) / path).exists() for path in first.needs)
    mine.write(rows(5, 1))
    mine.finalize(mine.prepare(2))
    assert values(kind, place) == [5]


def test_what_is_given_up_while_the_store_is_away_is_not_taken_from_a_document(kind: str, mode: str, place: Path) -> None:
    mine = new_sink(kind, place, mode)
    first = failed(mine)
    with answers_lost():
        mine.close()
    assert new_sink(kind, place, mode).pending()[0].needs == first.needs
    other = new_sink(kind, place, mode)
    assert other.abort(other.pending()[0])
    assert not any((below(kind, place) / path).exists() for path in first.needs)


def test_a_first_document_that_another_process_committed_is_told_and_its_files_stay(kind: str, mode: str, place: Path) -> None:
    mine = new_sink(kind, place, mode)
    first = failed(mine)
    with answers_lost(), pytest.raises(StoreUnavailable):  # the document stays, as where its process dies
        new_sink(kind, place, mode).finalize(first)
    mine.write(rows(3, 1))
    with pytest.raises(CommitConflict, match="committed by another process"):
        mine.prepare(2)
    mine.abort(None)
    assert values(kind, place) == [0, 1, 2]


@pytest.mark.parametrize("step", ["shared_files", "forget"])
def test_an_abort_beside_the_finalization_of_a_further_try_takes_no_file_of_the_table(
    kind: str, mode: str, step: str, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = new_sink(kind, place, mode)
    first = failed(mine)
    late = (below(kind, place) / first.path).read_bytes()
    prepared = mine.prepare(1)
    (below(kind, place) / first.path).write_bytes(late)
    mine, other, done = new_sink(kind, place, mode), new_sink(kind, place, mode), list[Any]()
    inner = getattr(aborted, step)

    def beside(*given: Any, **how: Any) -> Any:
        if not done:
            done.append(None)
            other.finalize(prepared)
        return inner(*given, **how)

    monkeypatch.setattr(aborted, step, beside)
    mine.abort(first)
    assert done
    assert values(kind, place) == [0, 1, 2]
    assert mine.pending() == []


def test_other_columns_after_a_prepare_of_no_rows_that_failed_leave_nothing_that_later_checkpoints_wait_for(
    kind: str, place: Path
) -> None:
    mine = sink(f"{kind}:{place}", pipeline="p", name="n", mode="overwrite", on_empty="clear", schema_evolution="add")
    mine.initialize(SCHEMA)
    with answers_lost(), pytest.raises(StoreUnavailable):
        mine.prepare(1)
    more = rows(0, 1).append_column("w", rows(0, 1)["v"])
    mine.initialize(more.schema)
    mine.write(more)
    mine.finalize(mine.prepare(2))
    assert values(kind, place) == [0]


def test_rows_of_a_next_try_are_not_taken_for_those_of_the_first_that_was_finalized(kind: str, mode: str, place: Path) -> None:
    mine = new_sink(kind, place, mode)
    first = failed(mine)
    late = (below(kind, place) / first.path).read_bytes()
    mine.write(rows(3, 3))
    prepared = mine.prepare(2)
    (below(kind, place) / first.path).write_bytes(late)
    other = new_sink(kind, place, mode)
    other.finalize(first)
    with pytest.raises((OperationReused, PreparedFilesMissing)):
        other.finalize(prepared)
    other.abort(prepared)
    other.write(rows(3, 3))
    other.finalize(other.prepare(3))
    assert values(kind, place) == [0, 1, 2, 3, 4, 5]
    assert other.pending() == []
