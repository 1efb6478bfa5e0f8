"""Folders, files and functions that docs/ARCHITECTURE.md and other pages name are there."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "gapless"
PAGE = (ROOT / "docs" / "ARCHITECTURE.md").read_text(encoding="utf-8")
ANSWERS = PAGE.partition("## Where is X decided?")[2]
_ROW = re.compile(r"\| (?P<question>[^|]+\?) \| `(?P<folder>[\w/]+/)` \| (?P<answer>[^|]+) \|")
_PLACE = re.compile(r"`(?P<file>[\w/]+\.py)`: (?P<names>`[\w.]+`(?:, `[\w.]+`(?!:))*)")


PLACES = (ROOT, SOURCE.parent, SOURCE, *(one for one in SOURCE.rglob("*") if one.is_dir() and one.name != "__pycache__"))


def is_there(path: str) -> bool:
    """Whether there is such a file or folder, below the repository or a folder of the package."""
    return any((place / path).exists() for place in PLACES)


def answers() -> Iterator[tuple[str, Path, str]]:
    """Question, file and function of each answer; a file without a folder is in that of its row, or at the top."""
    for row in _ROW.finditer(ANSWERS):
        for place in _PLACE.finditer(row["answer"]):
            near = SOURCE / row["folder"] / place["file"]
            path = near if near.exists() else SOURCE / place["file"]
            for name in re.findall(r"[\w.]+", place["names"]):
                yield row["question"], path, name


def names_in(path: Path) -> set[str]:
    """The functions and classes of a module, and the methods as `Class.method`."""
    found = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
        if isinstance(node, ast.ClassDef):
            found |= {f"{node.name}.{one.name}" for one in node.body if isinstance(one, ast.FunctionDef)}
    return found


def test_every_question_has_an_answer_that_this_test_reads() -> None:
    rows = [line for line in ANSWERS.splitlines() if line.startswith("| ")]
    questions = {question for question, _, _ in answers()}
    read = [row["question"] for row in _ROW.finditer(ANSWERS)]
    assert len(read) == len(rows) - 1 >= 10
    assert set(read) == questions


@pytest.mark.parametrize(("question", "path", "name"), list(answers()), ids=lambda value: getattr(value, "name", value))
def test_an_answer_names_a_function_that_is_there(question: str, path: Path, name: str) -> None:
    assert path.exists(), f"{question} {path}"
    assert name in names_in(path), f"{question} {path}: {name}"


def test_what_a_third_format_builds_on_is_there() -> None:
    part = PAGE.partition("## A third format")[2].partition("## Where is X decided?")[0]
    named = [match.groups() for match in re.finditer(r"`(\w+\.py)`: `(\w+)`", part)]
    assert len(named) > 5
    assert [one for one in named if one[1] not in names_in(SOURCE / "tables" / "shared" / one[0])] == []


def test_every_folder_and_file_that_the_page_names_is_there() -> None:
    named = {
        name for name in re.findall(r"`([\w./-]+(?:/|\.py|\.md))`", PAGE) if "NAME" not in name and not name.startswith("data/")
    }
    assert [name for name in sorted(named) if not is_there(name)] == []


def test_every_folder_of_the_package_has_a_row() -> None:
    folders = {one.name for one in SOURCE.iterdir() if one.is_dir() and one.name != "__pycache__"}
    assert [name for name in sorted(folders) if f"| `{name}/` |" not in PAGE] == []


@pytest.mark.parametrize("page", [ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))], ids=lambda page: page.name)
def test_every_file_of_code_that_a_page_names_by_its_path_is_there(page: Path) -> None:
    named = re.findall(r"`((?:[\w-]+/)+[\w-]+\.py)`", page.read_text(encoding="utf-8"))
    assert [name for name in named if not is_there(name)] == []
