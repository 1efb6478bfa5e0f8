"""A push and a pull that end at each object that they put: pullers and readers of copies see the old state or the new one, and nothing is torn."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import gapless as gl
from gapless.errors import TableNotFound
from gapless.lake.sync.transfer import pull, push
from gapless.model.protocols import TaggedObject
from gapless.runtime.environment import Environment
from gapless.store.local.store import LocalStore
from gapless.testing.store.stores import Killed
from lake.sync.copies import read_by_others, state
from support.dying_store import DyingStore, Life

pytestmark = [
    pytest.mark.filterwarnings(
        "ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"
    ),  # the page's reader
    pytest.mark.parametrize("stride", [6, pytest.param(1, marks=pytest.mark.soak)]),
]


class DyingCopies(DyingStore):
    """Conditional replaces count as calls too."""

    def get_tagged(self, path: str) -> TaggedObject:
        return self.life.call(lambda: self.inner.get_tagged(path), changes=False)  # type: ignore[attr-defined,no-any-return]

    def put_if_match(self, path: str, data: bytes | memoryview, etag: str) -> str:
        return self.life.call(lambda: self.inner.put_if_match(path, data, etag), changes=True)  # type: ignore[attr-defined,no-any-return]


def env(root: Path) -> Environment:
    return Environment(store=LocalStore(str(root)))


def pulled(hub: Path, into: Path) -> dict[str, list[object]]:
    gl.lake.pull(hub, into)
    return state(into)


def interrupted(target: Path, at: int, copy: object) -> bool:
    """Whether the copy died at its `at`th object."""
    store = DyingCopies(LocalStore(str(target)), Life(dies_at=at))
    try:
        copy(Environment(store=store))  # type: ignore[operator]
    except Killed:
        return True
    return False


@pytest.mark.parametrize("first", [True, False], ids=["first", "second"])
def test_a_push_that_ends_at_any_object(
    two_states: tuple[Path, Path, list[dict[str, list[object]]]], tmp_path: Path, first: bool, stride: int
) -> None:
    source, before, (old, new) = two_states
    at = 1 - stride
    while True:
        at += stride
        hub = tmp_path / f"hub{at}"
        if not first:
            shutil.copytree(before, hub)
        died = interrupted(hub, at, lambda target: push(env(source), target, node="main"))
        if not died:
            break
        if first:
            # Before lake.toml there is no lake; files of it may lie there.
            with pytest.raises(TableNotFound):
                gl.lake.pull(hub, tmp_path / f"none{at}")
        else:
            rows = read_by_others(hub)
            assert {0, 1} <= rows <= {0, 1, 10, 11}
            assert 11 not in rows or 10 in rows
            found = pulled(hub, tmp_path / f"copy{at}")
            assert {name: one for name, one in found.items() if name in ("events", "orders")} in [
                {name: one[name] for name in ("events", "orders")} for one in (old, new)
            ]
            assert found["hourly"] in (old["hourly"], new["hourly"])
            assert found["notes"] in (old["notes"], new["notes"])
        if at % (5 * stride) == 1:
            push(env(source), env(hub), node="main")
            assert pulled(hub, tmp_path / f"whole{at}") == new
    assert pulled(hub, tmp_path / "whole") == new
    assert at > (40 if first else 20)


def test_a_pull_that_ends_at_any_object(
    two_states: tuple[Path, Path, list[dict[str, list[object]]]], tmp_path: Path, stride: int
) -> None:
    source, hub, (old, new) = two_states
    gl.lake.pull(hub, tmp_path / "old")
    at = 1 - stride
    while True:
        at += stride
        copy = tmp_path / f"copy{at}"
        shutil.copytree(tmp_path / "old", copy)
        if not interrupted(copy, at, lambda target: pull(target, env(source))):
            break
        found = state(copy)
        assert found["events"] in (old["events"], new["events"])
        assert found["orders"] in (old["orders"], new["orders"])
        assert found["hourly"] in (old["hourly"], new["hourly"])
        assert found["notes"] in (old["notes"], new["notes"])
        assert {0, 1} <= read_by_others(copy)
        if at % (5 * stride) == 1:
            gl.lake.pull(source, copy)
            assert state(copy) == new
    assert state(copy) == new
    assert at > 20
