"""Eight processes append to one Delta table at once: as many commits as appends, no error reaches a caller, no row is lost or doubled."""

from __future__ import annotations

import statistics
from pathlib import Path

import pytest

import gapless as gl
from interop.delta.engines import Ask, counted
from process.delta_ledger import check_delta, make_delta, open_delta
from process.ledger import Append, Place, rows_of
from process.test_many_processes import PROCESSES, run_writers


def _slice(place: str, each: int) -> list[object]:
    first = [pytest.mark.long] if place == "seaweedfs" else []
    return [pytest.param(place, each, marks=first), pytest.param(place, 50, marks=pytest.mark.soak)]


@pytest.mark.parametrize(
    ("place", "each"), [*_slice("disk", 12), *_slice("ministack", 4), *_slice("seaweedfs", 6)], indirect=["place"]
)
def test_eight_processes_append_to_one_delta_table(place: Place, each: int, request: pytest.FixtureRequest) -> None:
    make_delta(place, checkpointInterval=25)
    answers, seconds = run_writers(place, each, delta=True)
    errors = [one["error"] for one in answers.values() if "error" in one]
    assert not errors, f"{len(errors)} errors reached a caller, the first: {errors[0]}"
    sent: set[Append] = {(f"w{number}", one) for number in range(PROCESSES) for one in range(each)}
    assert set(answers) == sent
    found = check_delta(place, sent)
    assert found.version == len(sent), "each append is one commit, and no version is left out"
    assert sorted(one["version"] for one in answers.values()) == list(range(1, found.version + 1))
    assert not any(one["already"] for one in answers.values())
    assert found.orphans == ()
    took = sorted(one["seconds"] * 1e3 for one in answers.values())
    p99 = took[min(len(took) - 1, len(took) * 99 // 100)]
    print(f"{request.node.callspec.id}: {PROCESSES} x {each}, {len(sent) / seconds:.0f} commits/s, ", end="")
    print(f"append p50 {statistics.median(took):.0f} ms, p99 {p99:.0f} ms; 0 errors, 0 rows lost or doubled")


def test_others_read_what_processes_wrote(tmp_path: Path, engine: Ask) -> None:
    place: Place = str(tmp_path / "table"), {}
    make_delta(place, checkpointInterval=5)
    run_writers(place, 3, delta=True)
    wanted = counted(open_delta(place).scan().to_arrow())
    for reader in ("deltalake-1.6.6", "duckdb-1.5.5"):
        assert counted(engine(reader).read(place[0])) == wanted, reader


def test_an_operation_is_known_to_every_process(tmp_path: Path) -> None:
    place: Place = str(tmp_path / "table"), {}
    make_delta(place)
    first = open_delta(place)
    second = open_delta(place)
    report: gl.AppendReport = first.append(rows_of(("w", 0)), operation_id=("w", 0))
    again: gl.AppendReport = second.append(rows_of(("w", 0)), operation_id=("w", 0))
    assert (again.already_applied, again.version, again.rows) == (True, report.version, report.rows)
    check_delta(place, [("w", 0)])
