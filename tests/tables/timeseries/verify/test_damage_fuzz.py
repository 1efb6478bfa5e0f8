"""Damage anywhere in a table: a typed error or exactly the rows and the coverage that were written, never others, and never a hang.

The codecs alone are in test_log_fuzz.py; here a whole table is opened, read and verified.
"""

from __future__ import annotations

import json
import time
import uuid
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import gapless as gl
from gapless.errors import GaplessError, LogWarning
from gapless.formats.timeseries.codec.json_values import seal
from gapless.store.memory import _SPACES, MemoryStore

START = datetime(2026, 1, 5, tzinfo=UTC)
LONGEST_S = 30.0
"""Far more than any of it takes, on a machine that does other things too."""


def _rows(day: int) -> pa.Table:
    hours = range(24 * day, 24 * day + 12)
    return pa.table(
        {
            "ts": [START + timedelta(hours=hour) for hour in hours for _ in "AB"],
            "symbol": ["A", "B"] * len(hours),
            "v": [float(hour) for hour in hours for _ in "AB"],
            "note": [f"note {hour % 5}" if hour % 3 else None for hour in hours for _ in "AB"],
        }
    )


_QUESTIONS: dict[str, Callable[[gl.TimeSeriesTable], object]] = {
    "all rows": lambda table: table.scan().to_arrow().to_pylist(),
    "in order": lambda table: table.scan(order="index", columns=["v"]).to_arrow().to_pylist(),
    "a range": lambda table: table.scan(start="2026-01-06T03:00Z", end="2026-01-07T02:00Z").to_arrow().to_pylist(),
    "a condition": lambda table: table.scan(where="v > 30 and note is not null", columns=["v"]).to_arrow().to_pylist(),
    "one symbol": lambda table: table.scan(entity={"symbol": "A"}, columns=["note"]).to_arrow().to_pylist(),
    "coverage": lambda table: [(c.identity, c.start, c.end) for c in table.coverage().gaps()] + table.identities(),
}


@dataclass(frozen=True)
class Sound:
    """A sound table's objects, and its answers."""

    objects: dict[str, bytes]
    answers: dict[str, object]

    def paths(self, kind: str) -> list[str]:
        return sorted(path for path in self.objects if kind in path)


@pytest.fixture(scope="module")
def sound() -> Sound:
    """Six commits, sidecars and inline coverage, checkpoints at versions 3 and 6."""
    url = f"memory://{uuid.uuid4()}"
    table = gl.create(url, index="ts", bucket="1h", entity="symbol", properties={"checkpoint_interval": 3})
    patch = pytest.MonkeyPatch()
    for day in range(5):
        patch.setattr("gapless.files.write.staged_write.INLINE_COVERAGE_BYTES", 0 if day % 2 else 4096)
        table.append(_rows(day), operation_id=("feed", day))
    patch.undo()
    store = MemoryStore(url.removeprefix("memory://"))
    objects = {info.path: store.get(info.path) for info in store.list()}
    answers = {name: ask(gl.open(url)) for name, ask in _QUESTIONS.items()}
    assert gl.verify(url, deep=True).findings == ()
    return Sound(objects, answers)


KINDS = ("_log/00000000", "CURRENT", "_last_checkpoint", ".checkpoint.parquet", "_coverage/", "data/")

_place = st.integers(min_value=0, max_value=1 << 20)
_flips = st.lists(st.tuples(_place, st.integers(0, 7)), min_size=1, max_size=3)
_bytes = st.binary(max_size=12)


def _flip(data: bytes, flips: list[tuple[int, int]]) -> bytes:
    mutated = bytearray(data)
    for at, bit in flips:
        if mutated:
            mutated[at % len(mutated)] ^= 1 << bit
    return bytes(mutated)


def _replace(data: bytes, at: int, length: int, by: bytes) -> bytes:
    at %= len(data) + 1
    return data[:at] + by + data[at + length :]


mutations: st.SearchStrategy[Callable[[bytes], bytes]] = st.one_of(
    _flips.map(lambda flips: lambda data: _flip(data, flips)),
    st.tuples(_place, st.integers(0, 40), _bytes).map(lambda t: lambda data: _replace(data, *t)),
    st.tuples(_place, _bytes).map(lambda t: lambda data: _replace(data, t[0], len(t[1]), t[1])),
    _place.map(lambda at: lambda data: data[: at % (len(data) + 1)]),
    _place.map(lambda at: lambda data: data + data[at % (len(data) + 1) :]),
    st.binary(max_size=64).map(lambda new: lambda _data: new),
)


def _ask(question: Callable[[], object]) -> object:
    """The answer, or the typed error; anything else that is raised fails the test."""
    try:
        return question()
    except GaplessError as error:
        return error


def _check(sound: Sound, objects: dict[str, bytes]) -> None:
    """All answers over these objects are those of the sound table or typed errors; `verify` knows where there is one."""
    name, began = str(uuid.uuid4()), time.monotonic()
    _SPACES[name] = {path: (data, 0) for path, data in objects.items()}
    url = f"memory://{name}"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", LogWarning)
            failed = _failures(sound, url)
        report = gl.verify(url)
        assert report.problems or not failed, failed
        if not gl.verify(url, deep=True).problems:
            assert not failed
        planned = gl.repair(url, accept_loss=True)
        assert not planned.applied
        assert {path: data for path, (data, _) in _SPACES[name].items()} == objects
        changed = {path for path in sound.objects if sound.objects[path] != objects.get(path)}
        if any(path.startswith(("data/", "_coverage/")) or path.endswith(".json") for path in changed):
            assert report.problems, changed
    except gl.errors.TableNotFound:
        assert not any(path.startswith("_timeseries_log/") for path in objects)
    finally:
        del _SPACES[name]
    assert time.monotonic() - began < LONGEST_S


def _failures(sound: Sound, url: str) -> dict[str, GaplessError]:
    """Questions that ended in a typed error; every other answer must be the sound table's."""
    failed: dict[str, GaplessError] = {}
    table = _ask(lambda: gl.open(url))
    if isinstance(table, GaplessError):
        return {"open": table}
    assert isinstance(table, gl.TimeSeriesTable)
    for name, question in _QUESTIONS.items():
        answer = _ask(lambda question=question: question(table))  # type: ignore[misc]  # mypy cannot infer the default's type
        if isinstance(answer, GaplessError):
            failed[name] = answer
        else:
            assert answer == sound.answers[name], name
    return failed


FUZZ = settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])


@pytest.mark.parametrize("kind", KINDS)
@FUZZ
@given(data=st.data())
def test_altered_bytes_never_give_other_rows(sound: Sound, kind: str, data: st.DataObject) -> None:
    paths = sound.paths(kind)
    path = paths[data.draw(st.integers(0, len(paths) - 1))]
    objects = dict(sound.objects)
    for mutate in data.draw(st.lists(mutations, min_size=1, max_size=2)):
        objects[path] = mutate(objects[path])
    _check(sound, objects)


@FUZZ
@given(data=st.data())
def test_lost_objects_never_give_other_rows(sound: Sound, data: st.DataObject) -> None:
    """Two at a time: who loses the newest commit, CURRENT and the checkpoint of that version has a table of the version before."""
    paths = sorted(sound.objects)
    lost = {paths[data.draw(st.integers(0, len(paths) - 1))] for _ in range(2)}
    _check(sound, {path: content for path, content in sound.objects.items() if path not in lost})


@FUZZ
@given(data=st.data())
def test_exchanged_objects_never_give_other_rows(sound: Sound, data: st.DataObject) -> None:
    kind = data.draw(st.sampled_from(("_log/00000000", ".checkpoint.parquet", "_coverage/", "data/")))
    paths = sound.paths(kind)
    first = data.draw(st.integers(0, len(paths) - 1))
    one, other = paths[first], paths[(first + data.draw(st.integers(1, len(paths) - 1))) % len(paths)]
    objects = dict(sound.objects)
    objects[one], objects[other] = objects[other], objects[one]
    _check(sound, objects)


@pytest.mark.parametrize(
    "bits",
    [
        pytest.param(1, id="one bit a byte"),
        pytest.param(8, id="every bit", marks=pytest.mark.soak),
    ],
)
def test_flips_before_the_footer_of_a_segment_never_give_other_rows(sound: Sound, bits: int) -> None:
    """Page headers have no checksum of their own, so this tries them all; the footer has one."""
    path = sound.paths("data/")[1]
    whole = sound.objects[path]
    name = str(uuid.uuid4())
    _SPACES[name] = {one: (data, 0) for one, data in sound.objects.items()}
    table = gl.open(f"memory://{name}")
    ends = {"typed error": 0, "the right rows": 0}
    for at in range(len(whole) - int.from_bytes(whole[-8:-4], "little") - 8):
        for bit in range(bits):
            _SPACES[name][path] = (_flip(whole, [(at, (at * 3 + bit) % 8)]), 0)
            for question in ("all rows", "one symbol"):
                answer = _ask(lambda question=question: _QUESTIONS[question](table))  # type: ignore[misc]
                wrong = isinstance(answer, GaplessError)
                assert wrong or answer == sound.answers[question], (at, bit, question)
                ends["typed error" if wrong else "the right rows"] += 1
    assert min(ends.values()) > 0, ends  # some flips lie in what a scan does not read


def _read_all(root: Path) -> None:
    table = gl.open(root)
    table.scan().to_arrow()
    table.coverage()


OUTSIDE = ["/etc/passwd", "../secret", "data/../../secret", "data/./x", "data//x", "data/x\x00", "", ".", "..", "/", "data/"]


@pytest.mark.parametrize("path", OUTSIDE)
@pytest.mark.parametrize("key", ["path", "coverage_path"])
def test_a_path_outside_the_root_is_never_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: str, path: str) -> None:
    """Written by someone who can seal a commit."""
    monkeypatch.setattr("gapless.files.write.staged_write.INLINE_COVERAGE_BYTES", 0)
    root = tmp_path / "t"
    table = gl.create(root, index="ts", bucket="1h", entity="symbol")
    table.append(_rows(0))
    secret = next((root / ("data" if key == "path" else "_coverage")).rglob("*.*")).read_bytes()
    (tmp_path / "secret").write_bytes(secret)
    commit = root / "_timeseries_log" / "0000000002.json"
    envelope: dict[str, Any] = json.loads(commit.read_bytes())
    del envelope["checksum"]
    next(action["AddSegment"] for action in envelope["actions"] if "AddSegment" in action)[key] = path
    commit.write_bytes(seal(json.dumps(envelope, separators=(",", ":")).encode()))
    with pytest.raises(GaplessError):
        _read_all(root)
    assert gl.verify(root, deep=True).problems
    gl.repair(root, apply=True, accept_loss=True)
    assert (tmp_path / "secret").read_bytes() == secret
