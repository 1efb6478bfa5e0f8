"""`tests/cases.md` is complete, and every test that it names is there and carries the id of its case."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path

TESTS = Path(__file__).resolve().parent.parent
AREAS = {
    "cdc",
    "coverage-and-append",
    "exactly-once",
    "log-and-concurrency",
    "maintenance",
    "mongo-filters",
    "paths-and-partitions",
    "run-store-and-drift",
    "spark-streaming",
    "statistics-and-pruning",
    "time-travel",
    "types-and-schema",
    "upsert-and-delete",
}
_ROW = re.compile(r"\| ([A-Z]+2?)-(\d+) \| (.+?) \| (.*?)\| (.*?)\|")


@dataclass(frozen=True)
class Case:
    area: str
    number: str
    title: str
    tests: tuple[str, ...]
    waits_for: str

    @property
    def id(self) -> str:
        return f"{self.area}-{self.number}"

    def is_carried_by(self, test: str) -> bool:
        """`test_stat_05_and_07_…` carries both its ids."""
        return re.match(rf"test_{self.area.lower()}_(\d+_and_)*{self.number}(_|$)", test) is not None


def cases() -> list[Case]:
    lines = (TESTS / "cases.md").read_text(encoding="utf-8").splitlines()
    rows = [line for line in lines if line.startswith("| ") and not line.startswith("| id ")]
    parsed = [match.groups() for line in rows if (match := _ROW.fullmatch(line))]
    assert len(parsed) == len(rows) > 0, "every row reads | id | case | tests | waits for |"
    return [
        Case(area, number, title, tuple(re.findall(r"`(\w+)`", tests)), waits.strip())
        for area, number, title, tests, waits in parsed
    ]


def names_in_the_tree() -> set[str]:
    sources = (path.read_text(encoding="utf-8") for path in TESTS.rglob("test_*.py"))
    return {name for source in sources for name in re.findall(r"^ *def (test_\w+)\(", source, re.MULTILINE)}


def test_every_test_that_the_list_names_exists() -> None:
    named = {test for case in cases() for test in case.tests}
    assert named - names_in_the_tree() == set()


def test_every_test_carries_the_id_of_its_case() -> None:
    assert [(case.id, test) for case in cases() for test in case.tests if not case.is_carried_by(test)] == []


def test_every_case_is_tested_or_waits_for_a_named_part() -> None:
    assert [case.id for case in cases() if not case.tests and not case.waits_for] == []
    ids = [case.id for case in cases()]
    assert len(set(ids)) == len(ids)


def test_a_tested_case_is_in_the_list() -> None:
    """A test that carries an id of these areas belongs to a case that the list has."""
    known = {(case.area.lower(), case.number) for case in cases()}
    areas = "|".join(sorted({area for area, _ in known}))
    carried = {match.groups() for test in names_in_the_tree() if (match := re.match(rf"test_({areas})_(\d+)_", test))}
    assert carried - known == set()


def test_the_list_is_complete(shared: Path) -> None:
    lines = (shared / "cases" / "cases.jsonl").read_text(encoding="utf-8").splitlines()
    wanted = {case["id"] for case in map(json.loads, lines) if case["area"] in AREAS}
    assert wanted - {case.id for case in cases()} == set()
