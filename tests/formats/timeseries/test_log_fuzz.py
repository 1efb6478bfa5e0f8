"""Damage of every kind in a table's log and coverage: a typed error or a valid reading, and never a path outside the root."""

from __future__ import annotations

import base64
import copy
import json
import shutil
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import gapless as gl
from gapless.errors import CorruptTable, TableError, VersionNotFound
from gapless.formats.timeseries.codec.commit import decode_commit
from gapless.formats.timeseries.codec.json_values import seal
from gapless.formats.timeseries.format import TIME_SERIES
from gapless.log.snapshot import load
from gapless.tables.shared.handle import open_environment

ttf = pytest.importorskip("timeseries_table_format", reason="needs a newer pyarrow than our oldest")

LOG = "_timeseries_log"
START = datetime(2024, 1, 1)
VERSIONS = 5
FEW = settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])


def rows(*hours: int) -> pa.Table:
    keys = [f"s{hour % 3}" for hour in hours]
    times = pa.array([START + timedelta(hours=hour) for hour in hours], pa.timestamp("us"))
    return pa.table(
        {"ts": times, "sym": keys, "small": pa.array([1] * len(hours), pa.int8()), "x": [0.5 * hour for hour in hours]}
    )


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table of gapless with versions 1 to 5, inline coverage and a sidecar."""
    root = tmp_path_factory.mktemp("fuzz") / "ours"
    table = gl.create(root, index="ts", bucket="1h", entity="sym")
    for start in (0, 10, 20):
        table.append(rows(*range(start, start + 7)), operation_id=("fuzz", start))
    table.append(rows(*range(100, 30_000, 5)))
    assert table.version == VERSIONS
    assert len(list((root / "_coverage").rglob("*.roar"))) == 1
    return root


@pytest.fixture(scope="module")
def theirs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table of timeseries-table-format with versions 1 to 5: its commits and sidecars have no checksums."""
    root = tmp_path_factory.mktemp("fuzz") / "theirs"
    table = ttf.TimeSeriesTable.create(
        table_root=str(root), index_column="ts", index_type="timestamp", index_granularity="1h", entity_columns=["sym"]
    )
    plain = rows(0).schema.remove(2)
    for start in (0, 10, 20):
        table.append(rows(*range(start, start + 7)).select(["ts", "sym", "x"]).cast(plain))
    table.optimize()
    assert table.version() == VERSIONS
    return root


def use(root: Path) -> None:
    """Ask a table everything; only errors of the tree may come out, and nothing may change."""
    try:
        table = gl.open(root)
    except gl.GaplessError:
        return
    asks: list[Callable[[], object]] = [
        lambda: table.scan().to_arrow(),
        lambda: table.scan(START, START + timedelta(hours=5), where="x > 1 and sym <> 's1'", order="index").to_arrow(),
        lambda: table.coverage().gaps(),
        table.identities,
        table.history,
        lambda: repr(table),
    ]
    for ask in asks:
        try:
            ask()
        except gl.GaplessError:
            continue


@pytest.fixture
def damaged(ours: Path, theirs: Path) -> Iterator[Callable[[str], Path]]:
    """`damaged(whose)`: a fresh copy of a table to damage."""
    with TemporaryDirectory() as folder:
        numbers = iter(range(10**9))

        def fresh(whose: str) -> Path:
            place = Path(folder) / str(next(numbers))
            shutil.copytree(ours if whose == "ours" else theirs, place)
            return place

        yield fresh


# -- commits ------------------------------------------------------------------------------------------------------------

json_values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text(max_size=5),
              st.sampled_from(["../x", "/x", "1970-01-01T00:00:00Z", "Utf8", "int64", 10**400, 2**63, -1, "Mixed", "999999999-01-01"])),
    lambda children: st.lists(children, max_size=3) | st.dictionaries(st.text(max_size=5), children, max_size=3),
    max_leaves=4,
)  # fmt: skip


def places_in(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every (container, key) of a JSON value."""
    keys = range(len(value)) if isinstance(value, list) else value if isinstance(value, dict) else ()
    for key in keys:
        yield value, key
        yield from places_in(value[key])


@st.composite
def changes(draw: st.DrawFn) -> Callable[[Any], Any]:
    """A change of one place in a JSON value: taken out, doubled, or replaced."""
    where, how, new = draw(st.integers(0, 10**6)), draw(st.sampled_from(["drop", "replace", "wrap", "copy"])), draw(json_values)
    other = draw(st.integers(0, 10**6))

    def change(value: Any) -> Any:
        value = copy.deepcopy(value)
        places = list(places_in(value))
        container, key = places[where % len(places)]
        if how == "drop":
            del container[key]
        elif how == "copy":
            source, name = places[other % len(places)]
            container[key] = copy.deepcopy(source[name])
        else:
            container[key] = new if how == "replace" else [container[key]]
        return value

    return change


def is_inside(path: str) -> bool:
    return not path.startswith("/") and not {"", ".", ".."} & set(path.split("/"))


@given(st.binary(max_size=200), st.integers(1, 3))
def test_garbage_is_no_commit(data: bytes, version: int) -> None:
    for commit in (data, b'{"version":1,' + data, seal(b"{" + data + b"}")):
        with pytest.raises(CorruptTable):
            decode_commit(commit, version, "x.json")


@given(st.integers(2, VERSIONS), st.lists(changes(), min_size=1, max_size=3), st.sampled_from(["ours", "theirs"]))
@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_changed_commit_decodes_to_values_or_a_typed_error(
    ours: Path, theirs: Path, version: int, changed: list[Callable[[Any], Any]], whose: str
) -> None:
    """Each change is sealed again, as a writer with a defect would."""
    value = json.loads(((ours if whose == "ours" else theirs) / LOG / f"{version:010d}.json").read_bytes())
    value.pop("checksum", None)
    for change in changed:
        value = change(value)
    try:
        commit, _ = decode_commit(seal(json.dumps(value).encode()), version, "x.json")
    except TableError:
        return
    for segment in commit.added:
        assert is_inside(segment.path)
        assert is_inside(getattr(segment.coverage, "path", "x"))
        assert segment.rows >= 0


@given(st.integers(1, VERSIONS), changes(), st.sampled_from(["ours", "theirs"]))
@FEW
def test_a_table_with_a_changed_commit_answers_or_says_why_not(
    damaged: Callable[[str], Path], version: int, change: Callable[[Any], Any], whose: str
) -> None:
    root = damaged(whose)
    path = root / LOG / f"{version:010d}.json"
    value = json.loads(path.read_bytes())
    value.pop("checksum", None)
    changed = json.dumps(change(value)).encode()
    path.write_bytes(seal(changed) if whose == "ours" else changed)
    use(root)


@given(st.integers(1, VERSIONS), st.integers(0, 10**6), st.sampled_from(["cut", "flip", "zeros", "more"]))
@FEW
def test_every_change_of_our_bytes_is_found(damaged: Callable[[str], Path], version: int, place: int, how: str) -> None:
    root = damaged("ours")
    path = root / LOG / f"{version:010d}.json"
    data = bytearray(path.read_bytes())
    place %= len(data)
    if how == "cut":
        del data[place:]
    elif how == "flip":
        data[place] ^= 1 << place % 8
    elif how == "zeros":
        data[place:] = bytes(len(data) - place)
    else:
        data += data[place:]
    path.write_bytes(data)
    with pytest.raises(CorruptTable, match=path.name):
        gl.open(root)


# -- the hint and the numbers ------------------------------------------------------------------------------------------


@given(st.one_of(st.binary(max_size=30), st.integers(0, VERSIONS).map(lambda n: b"%d\n" % n)))
@example(b"")
@example(b"+2 \n")
@example(b"-1")
@example(b"\xff\xfe")
@example("５".encode())
@example(b"1e3")
@example(b"0000000000000000000001")
@FEW
def test_log_12_current_is_only_a_hint_stale_torn_or_garbage(damaged: Callable[[str], Path], hint: bytes) -> None:
    root = damaged("ours")
    (root / LOG / "CURRENT").write_bytes(hint)
    text = hint.strip().removeprefix(b"+")
    if text.isdigit() and len(text) <= 10 and int(text) > VERSIONS:
        with pytest.raises(CorruptTable):
            gl.open(root)
    else:
        assert gl.open(root).version == VERSIONS


@pytest.mark.parametrize("whose", ["ours", "theirs"])
def test_log_12_without_current_the_newest_commit_is_found(damaged: Callable[[str], Path], whose: str) -> None:
    root = damaged(whose)
    (root / LOG / "CURRENT").unlink()
    assert gl.open(root).version == VERSIONS


def test_current_that_names_a_missing_version_means_a_lost_commit(damaged: Callable[[str], Path]) -> None:
    root = damaged("ours")
    (root / LOG / f"{VERSIONS:010d}.json").unlink()
    with pytest.raises(CorruptTable, match="CURRENT names version 5") as refused:
        gl.open(root)
    assert refused.value.path == f"{LOG}/{VERSIONS:010d}.json"
    with pytest.raises(gl.GaplessError):
        gl.create(root, index="ts", bucket="1h")


@pytest.mark.parametrize("missing", [1, 2, 3, 4])
@pytest.mark.parametrize("whose", ["ours", "theirs"])
def test_log_10_a_missing_version_in_the_middle_is_named_and_those_before_it_open(
    damaged: Callable[[str], Path], whose: str, missing: int
) -> None:
    root = damaged(whose)
    handle = gl.open(root)
    (root / LOG / f"{missing:010d}.json").unlink()
    env = open_environment(root, None)
    for at in (None, *range(missing, VERSIONS + 1)):
        with pytest.raises(CorruptTable, match=f"{missing:010d}.json") as refused:
            env.drive(load(TIME_SERIES, at))
        assert refused.value.path == f"{LOG}/{missing:010d}.json"
    for at in range(1, missing):
        before = env.drive(load(TIME_SERIES, at))
        assert before is not None
        assert before.version == at
    with pytest.raises(CorruptTable, match=f"{missing:010d}.json"):
        handle.history()


def test_versions_that_never_were_are_said(damaged: Callable[[str], Path]) -> None:
    env = open_environment(damaged("ours"), None)
    for at in (0, -1, VERSIONS + 1):
        with pytest.raises(VersionNotFound):
            env.drive(load(TIME_SERIES, at))


# -- coverage ----------------------------------------------------------------------------------------------------------


@given(st.integers(0, 10**6), st.binary(max_size=9), st.sampled_from(["cut", "flip", "replace"]))
@FEW
def test_every_change_of_our_sidecar_is_found(damaged: Callable[[str], Path], place: int, new: bytes, how: str) -> None:
    root = damaged("ours")
    (path,) = (root / "_coverage").rglob("*.roar")
    data = bytearray(path.read_bytes())
    place %= len(data)
    before = bytes(data)
    if how == "flip":
        data[place] ^= 1 << place % 8
    else:
        data[place:] = b"" if how == "cut" else new
    path.write_bytes(data)
    assert data != before or how == "replace"
    table = gl.open(root)
    assert table.scan().count() == 21 + 5_980
    if data != before:
        with pytest.raises(CorruptTable, match="_coverage/segments/"):
            table.coverage()


@given(st.integers(0, 10**6), st.binary(max_size=9), st.sampled_from(["cut", "flip", "replace", "swap"]))
@FEW
def test_a_changed_sidecar_of_theirs_is_another_set_or_a_typed_error(
    damaged: Callable[[str], Path], place: int, new: bytes, how: str
) -> None:
    root = damaged("theirs")
    sidecars = sorted((root / "_coverage" / "segments").iterdir())
    path = sidecars[place % len(sidecars)]
    data = bytearray(path.read_bytes())
    at = place // len(sidecars) % len(data)
    if how == "flip":
        data[at] ^= 1 << at % 8
    elif how == "swap":
        data = bytearray(sidecars[at % len(sidecars)].read_bytes())
    else:
        data[at:] = b"" if how == "cut" else new
    path.write_bytes(data)
    use(root)


@given(st.integers(2, 4), st.one_of(st.binary(max_size=40), st.sampled_from([2, 3, 4]), st.integers(0, 10**6)))
@FEW
def test_changed_inline_coverage_is_another_set_or_a_typed_error(
    damaged: Callable[[str], Path], version: int, new: bytes | int
) -> None:
    """Bytes in its place, another commit's, or one flipped bit; sealed again."""
    root = damaged("ours")

    def body_of(number: int) -> tuple[Path, Any, Any]:
        path = root / LOG / f"{number:010d}.json"
        commit = json.loads(path.read_bytes())
        del commit["checksum"]
        return path, commit, next(action["AddSegment"] for action in commit["actions"] if "AddSegment" in action)

    path, commit, body = body_of(version)
    if isinstance(new, bytes):
        body["coverage"] = base64.b64encode(new).decode()
    elif new in (2, 3, 4):
        body["coverage"] = body_of(new)[2]["coverage"]
    else:
        coverage = bytearray(base64.b64decode(body["coverage"]))
        coverage[new % len(coverage)] ^= 1 << new % 8
        body["coverage"] = base64.b64encode(coverage).decode()
    path.write_bytes(seal(json.dumps(commit).encode()))
    use(root)
