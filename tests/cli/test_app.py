"""Every command is listed as it describes itself; every way to end has its exit code and its block."""

from __future__ import annotations

import inspect
import subprocess
import sys

import pytest

from gapless import errors
from gapless.cli import app
from gapless.cli.app import COMMANDS, load_command, run
from gapless.cli.show import failure
from gapless.errors import CommitOutcomeUnknown, GaplessError
from gapless.tables.timeseries.table import TimeSeriesTable
from support.releases import needs_typer


def _leaves(kind: type[GaplessError]) -> list[type[GaplessError]]:
    return [kind, *(leaf for sub in kind.__subclasses__() for leaf in _leaves(sub))]


@pytest.mark.parametrize("name", COMMANDS)
def test_the_list_of_commands_says_what_each_says_of_itself(name: str) -> None:
    module, summary = COMMANDS[name]
    doc = inspect.getdoc(load_command(module, name))
    assert doc is not None
    assert doc.splitlines()[0] == summary
    assert f"\nExample: gapless {name} " in doc


@pytest.mark.parametrize("name", COMMANDS)
def test_each_command_has_help_with_its_example(name: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert run([name, "--help"]) == 0
    out, err = capfd.readouterr()
    assert f"Example: gapless {name} " in out
    assert f"Usage: gapless {name} " in out
    assert err == ""


def test_the_list_of_commands_appears_without_loading_arrow() -> None:
    code = "import sys; from gapless.cli.app import run; run(['--help']); sys.exit('pyarrow' in sys.modules or 'numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], stdout=subprocess.DEVNULL, check=False).returncode == 0


@pytest.mark.parametrize("kind", _leaves(GaplessError), ids=lambda kind: kind.__name__)
def test_each_error_keeps_its_code_and_exit_code(kind: type[GaplessError]) -> None:
    found = failure.failure_of(kind("it broke", why="it was old", fix="mend it"))
    assert (found.code, found.exit_code) == (kind.code, kind.exit_code)
    assert (found.what, found.why, found.fix) == ("it broke", "it was old", "mend it")


def test_exit_codes_are_those_of_the_documentation() -> None:
    codes = {
        kind: kind.exit_code
        for kind in (errors.InvalidOption, errors.CoverageOverlap, errors.CommitOutcomeUnknown, errors.StoreError)
    }
    assert list(codes.values()) == [2, 4, 5, 1]


def _raising(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(TimeSeriesTable, "open", fail)


def test_an_unknown_outcome_exits_5_and_says_where_to_look(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    fix = "When the store answers again, look for commit_id 7f in table.history()"
    _raising(monkeypatch, CommitOutcomeUnknown("not known", fix=fix, version=2, commit_id="7f"))
    assert run(["append", "t", "x.csv"]) == 5
    assert "look for commit_id 7f in `gapless history PATH`" in capfd.readouterr().err


def test_ctrl_c_exits_130_with_one_block(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    _raising(monkeypatch, KeyboardInterrupt())
    assert run(["append", "t", "x.csv"]) == 130
    out, err = capfd.readouterr()
    assert out == ""
    assert err.startswith("Error [interrupted]: stopped by the keyboard")


def test_what_nobody_expected_is_called_a_bug(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    monkeypatch.delenv(failure.TRACEBACK, raising=False)
    _raising(monkeypatch, ZeroDivisionError("by zero"))
    assert run(["info", "t"]) == 1
    err = capfd.readouterr().err
    assert err.startswith("Error [bug]: gapless met something that it did not expect: ZeroDivisionError: by zero\n")
    assert "Traceback" not in err
    assert "GAPLESS_TRACEBACK=1" in err
    monkeypatch.setenv(failure.TRACEBACK, "1")
    assert run(["info", "t"]) == 1
    assert "Traceback (most recent call last)" in capfd.readouterr().err


def test_an_error_of_the_system_is_no_bug(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    _raising(monkeypatch, PermissionError(13, "Permission denied", "/x"))
    assert run(["info", "t"]) == 1
    assert capfd.readouterr().err.startswith("Error [os-error]: '/x': Permission denied\n")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        pytest.param(
            ["scna", "t"], "no such command 'scna'. Did you mean 'scan'", marks=needs_typer(20, "suggests no command")
        ),
        (["scan"], "missing argument 'PATH'"),
        (["scan", "t", "--bogus"], "no such option: --bogus"),
        (["scan", "t", "--limit", "x"], "invalid value for '--limit'"),
        (["scan", "t", "--limit", "-1"], "invalid value for '--limit'"),
        (["create", "t", "--index", "ts"], "missing option '--bucket'"),
        (["--bogus"], "no such option: --bogus"),
    ],
)
def test_what_typer_refuses_looks_like_every_other_error(
    arguments: list[str], said: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run(arguments) == 2
    out, err = capfd.readouterr()
    assert out == ""
    assert err.startswith("Error [usage]: " + said)
    assert "--help` shows what it takes" in err
    assert err.count("\n") == 2


def test_a_message_cannot_move_the_cursor(capfd: pytest.CaptureFixture[str]) -> None:
    failure.print_error(GaplessError("column 'a\x1b[2J'\nis odd"))
    assert capfd.readouterr().err == "Error [gapless]: column 'a\\x1b[2J'\nis odd\n"


def test_calling_main_exits(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        app.main(["--version"])
    assert end.value.code == 0
    assert capfd.readouterr().out.startswith("gapless ")
