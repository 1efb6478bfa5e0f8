"""The hints of a log: CURRENT and _last_checkpoint. They may lag and be missing, but never lead or say something else. Pure."""

from __future__ import annotations

import json
from collections.abc import Sequence

from gapless.dialects.timeseries.dialect import TIME_SERIES
from gapless.maintain.finding import Finding

_MAX_DIGITS = 10


def hinted_version(data: bytes | None) -> int:
    """The version that CURRENT names; 0 where it is missing or cannot be read."""
    text = (data or b"").strip().removeprefix(b"+")
    return int(text) if text.isdigit() and len(text) <= _MAX_DIGITS else 0


def named_checkpoint(data: bytes | None) -> int:
    """The version that _last_checkpoint names; 0 where it is missing or cannot be read."""
    try:
        version = json.loads(data or b"{}")["version"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return 0
    return version if isinstance(version, int) and not isinstance(version, bool) and version > 0 else 0


def check_hints(hint: bytes | None, pointer: bytes | None, newest: int, checkpoints: Sequence[int]) -> list[Finding]:
    """What is wrong with the hints of a log whose newest version and believable checkpoints are these.

    That CURRENT leads is not told here: it means a lost commit.
    """
    if newest == 0:
        return []
    return [*_check_current(hint, newest), *_check_pointer(pointer, checkpoints)]


def _check_current(hint: bytes | None, newest: int) -> list[Finding]:
    path = TIME_SERIES.hint
    if hint is None:
        what = f"CURRENT is missing; the newest version is {newest}. gapless finds it without, timeseries-table-format does not"
        return [Finding(code="hint-missing", path=path, what=what, mend="repair", severity="note")]
    named = hinted_version(hint)
    if named == 0:
        what = f"CURRENT names no version: it holds {hint[:40]!r}, and the newest version is {newest}"
        return [Finding(code="hint-unreadable", path=path, what=what, mend="repair")]
    if named < newest:
        what = f"CURRENT names version {named}, and the newest is {newest}: a writer ended, or was, between the two"
        return [Finding(code="hint-behind", path=path, what=what, mend="repair", severity="note")]
    return []


def _check_pointer(pointer: bytes | None, checkpoints: Sequence[int]) -> list[Finding]:
    if pointer is None:
        return []
    named = named_checkpoint(pointer)
    if named in checkpoints:
        return []
    path = TIME_SERIES.last_checkpoint
    what = f"_last_checkpoint names version {named}" if named else f"_last_checkpoint holds {pointer[:40]!r}"
    return [
        Finding(
            code="checkpoint-hint", path=path, what=f"{what}, and no log checkpoint of that version can be read", mend="repair"
        )
    ]
