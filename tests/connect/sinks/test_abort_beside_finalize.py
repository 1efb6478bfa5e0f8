"""One prepared commit, finalized in one process and aborted in another: whatever call of one comes between two calls of the other."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeVar

import pytest

from gapless.connect import PreparedCommit, Sink, sink
from gapless.errors import CommitConflict, GaplessError, PreparedFilesMissing
from gapless.model.protocols import ObjectInfo, PutMode, Store, TaggedObject
from gapless.runtime.conditional_puts import tagged
from gapless.runtime.environment import Environment
from gapless.store.open import open_store
from gapless.tables.hudi import lock
from gapless.testing.store.stores import Killed, OuterStore
from support.pipelines import KINDS, SCHEMA, SINK_KINDS, made, opened, rows

T = TypeVar("T")
MODES = ("append", "upsert")
UNLOCKED_KINDS = (*KINDS, "iceberg")
"""Whoever dies within a commit into a Hudi table leaves its lock, which others wait for."""


class SteppedStore(OuterStore):
    """Before its call of a number, from 1, something else happens."""

    def __init__(self, inner: Store, steps: Steps) -> None:
        super().__init__(inner)
        self.steps = steps

    def get(self, path: str, start: int = 0, length: int | None = None) -> bytes:
        return self.steps.call(lambda: self.inner.get(path, start, length))

    def put(self, path: str, data: bytes | memoryview, *, mode: PutMode = "create", durable: bool = True) -> None:
        self.steps.call(lambda: self.inner.put(path, data, mode=mode, durable=durable))

    def get_tagged(self, path: str) -> TaggedObject:
        return self.steps.call(lambda: super(SteppedStore, self).get_tagged(path))

    def put_if_match(self, path: str, data: bytes | memoryview, etag: str) -> str:
        return self.steps.call(lambda: super(SteppedStore, self).put_if_match(path, data, etag))

    def head(self, path: str) -> ObjectInfo:
        return self.steps.call(lambda: self.inner.head(path))

    def list(self, prefix: str = "", after: str = "") -> Iterator[ObjectInfo]:
        return self.steps.call(lambda: iter([*self.inner.list(prefix, after)]))

    def delete(self, path: str) -> None:
        self.steps.call(lambda: self.inner.delete(path))

    def local_path(self, path: str) -> None:
        """None, so that every read comes by here."""


class Steps:
    """The calls of one process; before call `at` comes `then`, which may raise Killed: then no further call has an effect."""

    def __init__(self, at: int, then: Callable[[], None]) -> None:
        self.calls, self.at, self.then = 0, at, then
        self.dead = self.came = False

    def call(self, effect: Callable[[], T]) -> T:
        self.calls += 1
        if self.calls == self.at:
            self.came = True
            try:
                self.then()
            except Killed:
                self.dead = True
        if self.dead:
            raise Killed
        return effect()


@pytest.fixture(autouse=True)
def _no_time_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who would wait for the lock of a Hudi table between two calls of its holder has waited in vain."""
    acquired = lock._acquired

    def acquired_or_refused(env: Environment, owner: str) -> lock.HeldLock:
        found = tagged(env, lock.LOCK_OBJECT)
        if found is not None and not lock._is_free(found.data, env.clock.now_ns()):
            raise lock._refuse(env, owner)
        return acquired(env, owner)

    monkeypatch.setattr(lock, "_acquired", acquired_or_refused)


def die() -> None:
    raise Killed


class Place:
    """A table with a commit that is prepared, and processes that reach it."""

    def __init__(self, kind: str, mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
        self.kind, self.mode, self.monkeypatch = kind, mode, monkeypatch
        self.url = f"memory://{uuid.uuid4()}"
        made(kind, self.url).append(rows(50, 1))
        mine = self.opened()
        mine.write(rows(0, 3))
        self.prepared: PreparedCommit = mine.prepare(1)

    def opened(self, steps: Steps | None = None) -> Sink:
        """The sink in a new process."""
        options: dict[str, Any] = {"key": ["id"]} if self.mode == "upsert" else {}
        with self.monkeypatch.context() as patched:
            if steps is not None:
                patched.setattr(
                    "gapless.tables.shared.handle.open_store", lambda *place: SteppedStore(open_store(*place), steps)
                )
            found = sink(f"{self.kind}:{self.url}", pipeline="orders", name="main", mode=self.mode, **options)
            found.initialize(SCHEMA)
        if steps is not None:
            steps.calls = 0
        return found

    def found(self) -> list[int]:
        """Of the prepared rows, those that are in the table, which is whole."""
        table = opened(self.kind, self.url)
        assert table.verify(deep=True).ok
        return sorted(v for v in table.scan().to_arrow()["v"].to_pylist() if v < 50)

    def left(self) -> list[str]:
        """What is left of prepared commits."""
        own = "/.hoodie/gapless" if self.kind == "hudi" else ""
        return [info.path for info in open_store(f"{self.url}{own}").list("_prepared")]


@contextmanager
def suppress_locked(kind: str) -> Iterator[None]:
    """Who found a Hudi table locked tries again once the other is done."""
    try:
        yield
    except CommitConflict as error:
        assert (kind, error.reason) == ("hudi", "locked")  # noqa: PT017  # others have no lock


def answer(act: Callable[[], object]) -> object:
    """What it gives, or the error; not that the table is locked."""
    try:
        return act()
    except CommitConflict:
        raise
    except GaplessError as error:
        return error


def check(place: Place, finalized: object, aborted: object) -> None:
    """One of the two was right, and the other says so."""
    if aborted is True:
        assert isinstance(finalized, PreparedFilesMissing)
        assert place.found() == []
    else:
        assert aborted is False
        assert not isinstance(finalized, GaplessError), finalized
        assert place.found() == [0, 1, 2]
    assert place.left() == []


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", SINK_KINDS)
def test_an_abort_between_any_two_calls_of_finalize(kind: str, mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    outcomes, at, reached = set(), 0, True
    while reached:
        at += 1
        place, aborted = Place(kind, mode, monkeypatch), list[bool]()

        def abort(place: Place = place, aborted: list[bool] = aborted) -> None:
            with suppress_locked(kind):
                aborted.append(place.opened().abort(place.prepared))

        steps = Steps(at, abort)
        finalizing = place.opened(steps)
        finalized = answer(partial(finalizing.finalize, place.prepared))
        reached = steps.came
        if not aborted:
            abort()
        check(place, finalized, aborted[0])
        outcomes.add(aborted[0])
    assert outcomes == {True, False}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", SINK_KINDS)
def test_a_finalize_between_any_two_calls_of_abort(kind: str, mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    outcomes, at, reached = set(), 0, True
    while reached:
        at += 1
        place, finalized = Place(kind, mode, monkeypatch), list[object]()

        def finalize(place: Place = place, finalized: list[object] = finalized) -> None:
            with suppress_locked(kind):
                finalized.append(answer(lambda: place.opened().finalize(place.prepared)))

        steps = Steps(at, finalize)
        aborting = place.opened(steps)
        aborted = aborting.abort(place.prepared)
        reached = steps.came
        if not finalized:
            finalize()
        check(place, finalized[0], aborted)
        outcomes.add(aborted)
    assert outcomes == {True, False}


@pytest.mark.parametrize(
    "mode", [pytest.param(one, marks=pytest.mark.soak if one == "upsert" else pytest.mark.long) for one in MODES]
)
@pytest.mark.parametrize("kind", UNLOCKED_KINDS)
def test_an_abort_that_dies_anywhere_between_any_two_calls_of_finalize_and_is_made_again(
    kind: str, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second abort comes once the first and the finalization have ended."""
    at, reached = 0, True
    while reached:
        at, dies_at, died, reached = at + 1, 0, True, False
        while died:
            dies_at += 1
            place, began = Place(kind, mode, monkeypatch), list[Steps]()

            def abort(place: Place = place, began: list[Steps] = began, dies_at: int = dies_at) -> None:
                began.append(Steps(dies_at, die))
                try:
                    place.opened(began[0]).abort(place.prepared)
                except Killed:
                    return

            finalizing = place.opened(Steps(at, abort))
            finalized = answer(partial(finalizing.finalize, place.prepared))
            died = bool(began) and began[0].dead
            reached = reached or bool(began)
            aborted = place.opened().abort(place.prepared)
            if isinstance(finalized, GaplessError):
                assert isinstance(finalized, PreparedFilesMissing)
                assert aborted
                assert place.found() == []
            else:
                assert not aborted
                assert place.found() == [0, 1, 2]
            assert place.left() == []
