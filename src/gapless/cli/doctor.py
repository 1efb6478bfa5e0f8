"""`doctor`: what is missing on this machine, and how to get it."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from gapless.cli.options import JsonFlag, argument
from gapless.cli.show.console import print_line, write_json
from gapless.draw.label import printable
from gapless.pipelines.config import read_config
from gapless.pipelines.machine import Check, check_machine
from gapless.pipelines.pipeline import folder_of, pipeline
from gapless.tables.shared.findings import count

_MARKS = {"ok": ("ok       ", "green"), "optional": ("optional ", "yellow"), "missing": ("missing  ", "bold red")}


def doctor(
    files: Annotated[
        list[Path] | None, argument("FILE…", "Pipelines that are to run here: what they need is looked at too.")
    ] = None,
    json: JsonFlag = False,
) -> None:
    """Say what is missing on this machine to run pipelines, and how to get it: Java, Spark, its packages, extras, servers, ports.

    Settings are those of `gapless.toml` beside the first file, or here. The exit code is 1 where something is missing.

    Example: gapless doctor orders.sql
    """
    ready = [pipeline(one) for one in files or ()]
    config = read_config(folder_of(files[0] if files else None))
    checks = []
    for check in check_machine(ready, config):
        checks.append(check)
        if not json:
            _print(check)
    missing = [check for check in checks if check.status == "missing"]
    if json:
        write_json({"ok": not missing, "checks": [asdict(check) for check in checks]})
    elif missing:
        print_line((f"{count(len(missing), 'thing')} missing.", "bold red"))
    else:
        print_line(("Nothing is missing.", "green"))
    if missing:
        raise typer.Exit(1)


def _print(check: Check) -> None:
    mark, style = _MARKS[check.status]
    print_line((mark, style), (f"{printable(check.name)}: ", "bold"), printable(check.found))
    if check.fix:
        print_line(f"{' ' * len(mark)}{printable(check.fix)}")
