"""The pages that repeat what the code says are up to date."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from gapless import errors
from gapless.cli.app import COMMANDS, DELTA_COMMANDS, LAKE_COMMANDS

ROOT = Path(__file__).resolve().parents[2]


def load_tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("reference_pages", ROOT / "tools" / "reference_pages.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


TOOL = load_tool()


@pytest.mark.parametrize("name", TOOL.PAGES)
def test_a_page_made_from_the_code_is_what_the_code_says(name: str) -> None:
    wanted = TOOL.PAGES[name]()
    found = (ROOT / name).read_text(encoding="utf-8")
    assert found == wanted, f"run: PYTHONPATH=src .venv/bin/python tools/reference_pages.py  ({name} is out of date)"


def test_what_to_do_is_said_of_every_error_and_of_nothing_else() -> None:
    kinds = {
        kind.__name__ for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, errors.GaplessError)
    }
    assert set(TOOL.WHAT_TO_DO) == kinds


def test_every_option_of_every_command_has_a_help_text() -> None:
    silent = [
        f"{name} {param.name}"
        for name, command in TOOL.commands().items()
        for param in command.params
        if not getattr(param, "help", "")
    ]
    assert not silent
    assert set(TOOL.commands()) == {
        *COMMANDS,
        *(f"delta {name}" for name in DELTA_COMMANDS),
        *(f"lake {name}" for name in LAKE_COMMANDS),
    }
