"""Links lead somewhere, and what the package has is somewhere in the documentation."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import gapless
from gapless import errors
from gapless.cli.app import COMMANDS, DELTA_COMMANDS, LAKE_COMMANDS
from gapless.tables import delta

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
_LINK = re.compile(r"\]\((?P<target>[^)\s]+)\)")
_CODE = re.compile(r"^ *```.*?^ *```$", re.MULTILINE | re.DOTALL)


def prose_of(page: Path) -> str:
    return _CODE.sub("", page.read_text(encoding="utf-8"))


def links_of(page: Path) -> Iterator[str]:
    yield from (match["target"] for match in _LINK.finditer(prose_of(page)))


def anchors_of(page: Path) -> set[str]:
    """The anchors of a page's headings, as mkdocs makes them."""
    headings = re.findall(r"^#+ (.*)$", prose_of(page), re.MULTILINE)
    kept = (re.sub(r"[^\w\s-]", "", heading.lower().replace("`", "")) for heading in headings)
    return {re.sub(r"[-\s]+", "-", heading.strip()) for heading in kept}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_within_the_repository_resolve(page: Path) -> None:
    broken = []
    for link in links_of(page):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (anchor and anchor not in anchors_of(target)):
            broken.append(link)
    assert not broken


def test_pages_of_the_site_link_to_nothing_outside_of_it() -> None:
    outside = [
        f"{page}: {link}"
        for page in (ROOT / "docs").rglob("*.md")
        for link in links_of(page)
        if not re.match(r"[a-z]+:|#", link)
        and not (page.parent / link.partition("#")[0]).resolve().is_relative_to(ROOT / "docs")
    ]
    assert not outside, f"the built site would not have them: {outside}"


def test_every_page_is_linked_from_another_one() -> None:
    linked = {(page.parent / link.partition("#")[0]).resolve() for page in PAGES for link in links_of(page) if ":" not in link}
    assert [str(page) for page in (ROOT / "docs").rglob("*.md") if page not in linked and page.name != "index.md"] == []


def test_every_public_name_is_documented() -> None:
    text = "\n".join(page.read_text(encoding="utf-8") for page in (ROOT / "docs").rglob("*.md"))
    assert [name for name in gapless.__all__ if not re.search(rf"\b(gl|gapless)\.{name}\b|`{name}`", text)] == []


def test_every_name_of_delta_tables_is_documented() -> None:
    text = (ROOT / "docs/reference/delta.md").read_text(encoding="utf-8")
    assert [name for name in delta.__all__ if not re.search(rf"^#+ {name}$", text, re.MULTILINE)] == []


def test_every_command_is_documented_beside_its_reference() -> None:
    pages = [page for page in PAGES if page.name not in {"cli.md", "CHANGELOG.md"}]
    text = "\n".join(page.read_text(encoding="utf-8") for page in pages) + "gapless demo"
    assert "make demo" in text
    names = (*COMMANDS, *(f"delta {name}" for name in DELTA_COMMANDS), *(f"lake {name}" for name in LAKE_COMMANDS))
    assert [name for name in names if f"gapless {name}" not in text] == []


def test_every_error_is_on_its_page() -> None:
    page = (ROOT / "docs/errors.md").read_text(encoding="utf-8")
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, errors.GaplessError)]
    assert len(kinds) > 20
    assert [kind.__name__ for kind in kinds if f"\n## {kind.__name__}\n" not in page or f"`{kind.code}`" not in page] == []


def test_the_words_that_we_do_not_use_are_not_used() -> None:
    banned = re.compile(
        r"\b(blazing|seamless(ly)?|cutting[- ]edge|simply|powerful|robust|effortless(ly)?|leverag\w+|utiliz\w+)\b",
        re.IGNORECASE,
    )
    assert [f"{page}: {found[0]}" for page in PAGES for found in banned.finditer(prose_of(page))] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_lines_of_prose_have_at_most_128_characters(page: Path) -> None:
    long = [line for line in prose_of(page).splitlines() if len(line) > 128 and not line.startswith(("|", "#", "!", "<"))]
    assert long == []


def test_words_that_only_this_project_knew_are_not_used() -> None:
    banned = re.compile(r"\b(strangers?|rim|dialects?)\b", re.IGNORECASE)
    assert [f"{page}: {found[0]}" for page in PAGES for found in banned.finditer(prose_of(page))] == []
