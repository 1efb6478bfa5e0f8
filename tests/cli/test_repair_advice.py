"""An error about lost coverage names a command: the one that it names is run, and the table is whole."""

from __future__ import annotations

import json
import re
import shlex
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import gapless as gl
from cli.conftest import Gapless
from gapless.coverage import codec
from gapless.errors import CorruptTable, LogWarning
from gapless.files.write import staged_write
from gapless.formats.timeseries.codec.json_values import seal
from gapless.formats.timeseries.conflict.rows import coverage_of
from gapless.runtime.environment import Environment
from gapless.store.open import open_store
from gapless.testing.simulation.simulation import small_parts

Damage = Callable[[bytes], bytes]
DAMAGES: dict[str, Damage | None] = {
    "missing": None,
    "empty": lambda _: b"",
    "cut": lambda data: data[:-1],
    "flipped": lambda data: data[:-1] + bytes([data[-1] ^ 1]),
    "of nothing that is coverage": lambda _: b"x" * 40,
}
ROWS = {"i": [1, 2, 15], "e": ["a", "b", "a"], "x": [1.5, None, -0.0]}


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A table of two segments, with sidecars; its path needs quotes in a shell."""
    monkeypatch.setattr(staged_write, "INLINE_COVERAGE_BYTES", 0)
    place = tmp_path / "it's a table"
    table = gl.create(place, index="i", index_type="int64", entity=["e"], bucket=10)
    table.append(ROWS)
    table.append({"i": [31], "e": ["a"], "x": [2.5]})
    return place


def damage(path: Path, change: Damage | None) -> None:
    if change is None:
        path.unlink()
    else:
        path.write_bytes(change(path.read_bytes()))


def sidecars(place: Path) -> list[Path]:
    return sorted(place.glob("_coverage/**/*.roar"))


def edit_segments(place: Path, **changes: object) -> None:
    """Change what commits say of their segments, and seal them again, as a writer with a bug would have written them."""
    for path in (place / "_timeseries_log").glob("*.json"):
        commit = json.loads(path.read_text())
        del commit["checksum"]
        for action in commit["actions"]:
            if "AddSegment" in action:
                action["AddSegment"] |= changes
        path.write_bytes(seal(json.dumps(commit, separators=(",", ":")).encode()))


def answer(table: Any) -> tuple[int, list[str]]:
    """What is covered, and what is not."""
    found = table.coverage()
    return found.covered, [str(gap) for gap in found.gaps()]


def named_command(text: str) -> list[str]:
    """The words of the command in a message, as a shell takes them."""
    (command,) = re.findall(r"`(gapless [^`]*)`", text)
    program, *words = shlex.split(command)
    assert program == "gapless"
    return words


def ask_all(place: Path) -> object:
    return gl.open(place).coverage()


def ask_one(place: Path) -> object:
    return gl.open(place).coverage(entity={"e": "a"})


def append_there(place: Path) -> object:
    return gl.open(place).append({"i": [1], "e": ["a"], "x": [0.5]}, on_overlap="skip")


def commit_beside(place: Path) -> object:
    """As a commit that came second looks at the segments of the first."""
    table = gl.open(place)
    env = Environment(store=open_store(place))
    return [env.drive(coverage_of(segment, ("utf8",))) for segment in table.segments()]


@pytest.mark.parametrize("asked", [ask_all, ask_one, append_there, commit_beside])
@pytest.mark.parametrize("change", DAMAGES.values(), ids=DAMAGES)
def test_the_command_that_a_lost_sidecar_names_mends_it(
    place: Path, inside: Gapless, change: Damage | None, asked: Any
) -> None:
    whole = answer(gl.open(place))
    for path in sidecars(place):
        damage(path, change)
    with pytest.raises(CorruptTable) as found:
        asked(place)
    assert inside(*named_command(found.value.fix)).code == 0
    assert gl.verify(place, deep=True).ok
    assert answer(gl.open(place)) == whole
    asked(place)


@pytest.mark.parametrize("asked", [ask_all, ask_one])
def test_where_no_checksum_shows_it_only_the_rows_tell_whose_coverage_it_is(place: Path, inside: Gapless, asked: Any) -> None:
    whole = answer(gl.open(place))
    edit_segments(place, coverage_checksum=None)
    first, second = sidecars(place)
    of_first, of_second = first.read_bytes(), second.read_bytes()
    first.write_bytes(of_second)
    second.write_bytes(of_first)
    with pytest.raises(CorruptTable, match="not that of segment") as found:
        asked(place)
    assert inside(*named_command(found.value.fix)).code == 0
    assert answer(gl.open(place)) == whole


def test_coverage_that_was_written_wrong_leaves_the_rows_to_append_anew(place: Path, tmp_path: Path) -> None:
    whole = answer(gl.open(place))
    edit_segments(place, coverage="AAAA", coverage_path=None, coverage_checksum=None)
    with pytest.raises(CorruptTable, match="append what they read to a new table"):
        gl.open(place).coverage()
    again = gl.create(tmp_path / "again", index="i", index_type="int64", entity=["e"], bucket=10)
    again.append(gl.open(place).scan().to_arrow())
    assert answer(again) == whole


def test_of_a_table_in_memory_the_call_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(staged_write, "INLINE_COVERAGE_BYTES", 0)
    table = gl.create("memory://repair-advice", index="i", index_type="int64", entity=["e"], bucket=10)
    table.append(ROWS)
    store = open_store(table.url)
    for info in list(store.list("_coverage")):
        store.delete(info.path)
    with pytest.raises(CorruptTable) as found:
        gl.open(table.url).coverage()
    assert f"`gl.repair({table.url!r}, apply=True)`" in found.value.fix
    assert gl.repair(table.url, apply=True).ok
    assert gl.open(table.url).coverage().covered == 3


def test_the_command_that_a_lost_index_names_mends_it(tmp_path: Path, inside: Gapless, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(codec, "INDEXED_BYTES", 4_097)
    names = [f"e{number:02}" for number in range(40)]
    table = gl.create(tmp_path / "t", index="i", index_type="int64", entity=["e"], bucket=1)
    at = [(name, i) for number, name in enumerate(names) for i in range(1_000) if (i + number) % 3]
    table.append(pa.table({"i": [i for _, i in at], "e": [name for name, _ in at]}))
    (index,) = (tmp_path / "t").glob("_coverage/**/*.idx")
    index.unlink()
    with pytest.warns(LogWarning, match="is read instead") as warned:
        gl.open(tmp_path / "t").coverage(entity={"e": "e07"})
    assert inside(*named_command(str(warned[0].message))).code == 0
    assert index.exists()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        gl.open(tmp_path / "t").coverage(entity={"e": "e07"})


def test_the_command_that_a_lost_part_of_a_log_checkpoint_names_mends_it(tmp_path: Path, inside: Gapless) -> None:
    with small_parts(4):
        table = gl.create(tmp_path / "t", index="i", index_type="int64", bucket=1, properties={"checkpoint_interval": 5})
        for i in range(24):
            table.append({"i": [i]})
    whole = {path: path.read_bytes() for path in (tmp_path / "t" / "_log_parts").iterdir()}
    for path in whole:
        path.unlink()
    with pytest.warns(LogWarning, match="the commits serve instead") as warned:
        assert gl.open(tmp_path / "t").scan().to_arrow().num_rows == 24
    (words,) = {tuple(named_command(str(one.message))) for one in warned}
    assert inside(*words).code == 0
    named = {path for path in whole if path.exists()}
    assert named
    assert all(path.read_bytes() == whole[path] for path in named)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert gl.open(tmp_path / "t").scan().to_arrow().num_rows == 24
