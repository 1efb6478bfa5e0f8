"""Every code block of the README and the documentation is run, or carries its reason not to be.

In a Markdown page:

- A `python` block runs in the page's own namespace and folder. `expression  # -> text` is compared with what the statement printed, or
  with its value; `statement  # raises Name: text` must raise. `...` stands for anything. A text block under `<!-- output -->` is what the
  block before it printed.
- A `console` block has commands after `$ ` and their output; a `bash` block is a script. Both run in the page's folder.
- A block of any language with a `title` becomes a file of that name there.
- `<!-- not run: reason -->` on the line above a block lets it be.
"""

from __future__ import annotations

import ast
import contextlib
import io
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")])
RUN = {"python", "bash", "console"}
SHOWN = {"text", "json", "csv", "sql", "toml", "yaml", "makefile"}
"""Languages of blocks that are looked at only."""
_FENCE = re.compile(r"^(?P<indent> *)```(?P<info>[^`\n]*)\n(?P<text>.*?)^(?P=indent)```$", re.MULTILINE | re.DOTALL)
_MARK = re.compile(r"<!-- (?P<kind>not run: (?P<reason>.*?)|output) -->\s*\Z")
_NOTE = re.compile(r"#\s*(?P<kind>->|raises)\s?(?P<text>.*)$")


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    page: Path
    line: int
    language: str
    title: str
    text: str
    reason: str
    """Why it is not run; empty where it is."""
    is_output: bool

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def blocks_of(page: Path) -> list[Block]:
    source = page.read_text(encoding="utf-8")
    found = []
    for match in _FENCE.finditer(source):
        mark = _MARK.search(source, 0, match.start())
        language, _, rest = match["info"].partition(" ")
        title = re.search(r'title="([^"]+)"', rest)
        text = "".join(line.removeprefix(match["indent"]) for line in match["text"].splitlines(keepends=True))
        found.append(
            Block(
                page=page,
                line=source.count("\n", 0, match.start()) + 1,
                language=language,
                title=title[1] if title else "",
                text=text,
                reason=(mark["reason"] or "") if mark else "",
                is_output=bool(mark) and mark is not None and mark["kind"] == "output",
            )
        )
    return found


BLOCKS = {page: blocks_of(page) for page in PAGES}


def matches(wanted: str, found: str) -> bool:
    """Whether an output is the one that a page shows: spaces, rules and blank lines do not count, `...` is anything."""
    lines = [" ".join(line.split()) for line in wanted.splitlines() if line.strip(" ─-")]
    pattern = re.escape("\n".join(lines)).replace(re.escape("..."), ".*")
    shown = "\n".join(" ".join(line.split()) for line in found.splitlines() if line.strip(" ─-"))
    return re.fullmatch(pattern, shown, re.DOTALL) is not None


# -- python ------------------------------------------------------------------------------------------------------------


def run_python(block: Block, names: dict[str, Any]) -> str:
    """Run the statements one by one, holding each to its note; returns all they printed."""
    tree = ast.parse(block.text)
    lines = block.text.splitlines()
    ends = [statement.lineno for statement in tree.body[1:]] + [len(lines) + 1]
    printed = []
    for statement, end in zip(tree.body, ends, strict=True):
        notes = [note for at in range((statement.end_lineno or 0) - 1, end - 1) if (note := _note(lines[at], statement, at))]
        where = f"{block.page.relative_to(ROOT)}:{block.line + statement.lineno}"
        printed.append(_run_statement(statement, notes, names, where))
    return "".join(printed)


def _note(line: str, statement: ast.stmt, at: int) -> re.Match[str] | None:
    start = statement.end_col_offset or 0 if at == (statement.end_lineno or 0) - 1 else 0
    # Offsets count bytes, and pages hold more than ASCII.
    return _NOTE.search(line.encode()[start:].decode())


def _run_statement(statement: ast.stmt, notes: list[re.Match[str]], names: dict[str, Any], where: str) -> str:
    wanted, raises = "\n".join(note["text"] for note in notes), any(note["kind"] == "raises" for note in notes)
    with contextlib.redirect_stdout(io.StringIO()) as out:
        try:
            value = _evaluate(statement, names)
        except Exception as error:
            if not raises or not matches(wanted, _error_text(error, wanted)):
                raise AssertionError(f"{where} raised {type(error).__name__}: {error}") from error
            return out.getvalue()
    assert not raises, f"{where} raised nothing"
    if notes:
        found = out.getvalue() or repr(value)
        assert matches(wanted, found), f"{where} shows\n{wanted}\nand gave\n{found}"
    return out.getvalue()


def _error_text(error: Exception, wanted: str) -> str:
    name = type(error).__name__
    return f"{name}: {error}" if ":" in wanted else name


def _evaluate(statement: ast.stmt, names: dict[str, Any]) -> object:
    if isinstance(statement, ast.Expr):
        return eval(compile(ast.Expression(statement.value), "<page>", "eval"), names)
    exec(compile(ast.Module([statement], []), "<page>", "exec"), names)
    target = statement.targets[0] if isinstance(statement, ast.Assign) else None
    return names[target.id] if isinstance(target, ast.Name) else None


# -- shell -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Shell:
    folder: Path

    def run(self, script: str) -> tuple[int, str]:
        """Run a script with `gapless` and this Python on the PATH; the exit code, and what came on stdout and stderr."""
        tools = self.folder.parent / f"{self.folder.name}.bin"
        tools.mkdir(exist_ok=True)
        for name, words in (("gapless", "-m gapless "), ("python", "")):
            command = tools / name
            command.write_text(f'#!/bin/sh\nexec "{sys.executable}" {words}"$@"\n')
            command.chmod(0o755)
        environment = {
            **os.environ,
            "PATH": f"{tools}:{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT / "src"),
            "LC_ALL": "C.UTF-8",
        }
        done = subprocess.run(
            ["bash", "-c", script],
            check=False,
            cwd=self.folder,
            env=environment,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        return done.returncode, done.stdout


def steps_of(text: str) -> Iterator[tuple[str, str]]:
    """The commands of a console block, each with the output that it shows."""
    for step in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        command = re.match(r"(?:.*\\\n)*.*\n?", step)
        assert command is not None
        yield command[0], step[command.end() :]


def run_console(block: Block, shell: Shell) -> None:
    code = 0
    steps = list(steps_of(block.text))
    assert steps, f"{block}: a console block needs a line that begins with '$ '"
    for at, (command, wanted) in enumerate(steps):
        code, found = shell.run(f"(exit {code}); {command}")
        asked = at + 1 < len(steps) and steps[at + 1][0].strip() == "echo $?"
        assert code == 0 or asked or "Error [" in wanted, f"{block}: {command}exited with {code}:\n{found}"
        assert not wanted.strip() or matches(wanted, found), f"{block}: {command}shows\n{wanted}\nand gave\n{found}"


# -- tests -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_blocks_of_a_page_run_and_give_what_it_shows(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "page"
    folder.mkdir()
    monkeypatch.chdir(folder)
    names: dict[str, Any] = {"__name__": "page"}
    shell, printed = Shell(folder=folder), ""
    for block in BLOCKS[page]:
        if block.title:
            Path(block.title).parent.mkdir(parents=True, exist_ok=True)
            Path(block.title).write_text(block.text, encoding="utf-8")
        elif block.is_output:
            assert matches(block.text, printed), f"{block} shows\n{block.text}\nand the block before it printed\n{printed}"
        elif block.reason or block.language not in RUN:
            continue
        elif block.language == "python":
            printed = run_python(block, names)
        elif block.language == "console":
            run_console(block, shell)
        else:
            code, found = shell.run(f"set -e\n{block.text}")
            assert code == 0, f"{block} exited with {code}:\n{found}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_block_says_its_language_and_what_is_not_run_says_why(page: Path) -> None:
    source = page.read_text(encoding="utf-8")
    unknown = [f"{b} {b.language!r}" for b in BLOCKS[page] if b.language not in RUN | SHOWN]
    assert not unknown, f"blocks that no one runs: {unknown}"
    assert source.count("```") == 2 * len(BLOCKS[page]), f"{page} has a fence that is not closed, or not understood"
    marks = len(re.findall(r"<!-- not run:", source))
    assert marks == sum(bool(block.reason.strip()) for block in BLOCKS[page]), (
        f"{page}: a mark without a reason, or without a block"
    )


def block_of(language: str, text: str) -> Block:
    return Block(page=ROOT / "README.md", line=1, language=language, title="", text=text, reason="", is_output=False)


@pytest.mark.parametrize(
    "text",
    [
        "1 + 1  # -> 3",
        "x = 2  # -> 3",
        "print(2)\n# -> 3",
        "1 / 0",
        "1 / 0  # raises KeyError",
        "1 / 0  # raises ZeroDivisionError: other words",
        "1 + 1  # raises ZeroDivisionError",
    ],
)
def test_python_that_does_not_do_what_the_page_says_is_noticed(text: str) -> None:
    with pytest.raises(AssertionError, match=r"README\.md:2"):
        run_python(block_of("python", text), {})


def test_a_command_that_does_not_do_what_the_page_says_is_noticed(tmp_path: Path) -> None:
    shell = Shell(folder=tmp_path)
    run_console(block_of("console", "$ echo a; echo b\na\n...\n$ false\n$ echo $?\n1\n"), shell)
    for text in ("$ echo a\nb\n", "$ false\n", "echo a\n", "$ true\n$ echo $?\n1\n"):
        with pytest.raises(AssertionError):
            run_console(block_of("console", text), shell)


def test_an_output_matches_but_for_spaces_and_what_is_left_out() -> None:
    assert matches("a ...\n\nb", "a   c\nd\nb\n")
    assert not matches("a\nb", "a\nc")
