"""The files of a Spark checkpoint folder, read strictly: pure."""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

NEWEST_VERSION = 2
"""The newest form of Spark's logs that is known here."""
_QUERY = re.compile(r'"id"\s*:\s*"([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})"')
_CRC = b"crc\0"


@dataclass(frozen=True, slots=True, kw_only=True)
class LogFolder:
    """One of Spark's logs: a folder of files that are named by numbers."""

    path: str
    """Relative to the checkpoint folder."""
    files: Mapping[int, str] = field(default_factory=dict)
    """The paths of its files by number."""
    contents: Mapping[int, bytes] = field(default_factory=dict)
    """What those hold that were read: the newest ones."""
    checksums: Mapping[str, bytes] = field(default_factory=dict)
    """By the path of the file that they are about."""
    unfinished: tuple[str, ...] = ()
    """Paths of temporary files."""
    strangers: tuple[str, ...] = ()
    """Paths of all else."""

    @property
    def newest(self) -> int | None:
        """The highest number; None where there is no file."""
        return max(self.files, default=None)


class Damaged(Exception):  # it never leaves the modules that look at checkpoints
    """A file is not what Spark writes; the text says how."""


class FromNewerSpark(Exception):  # it never leaves the modules that look at checkpoints
    """A file is in a form that is not known here; the text says which."""


def query_of(metadata: bytes) -> str:
    """The query's id in the file `metadata`; raises Damaged."""
    found = _json(_text(metadata))
    if not isinstance(found, dict) or not isinstance(found.get("id"), str) or not found["id"]:
        raise Damaged("it holds no id")
    return str(found["id"])


def query_in(damaged: bytes) -> str | None:
    """The query's id where it is still whole in a damaged `metadata`."""
    match = _QUERY.search(damaged.decode("utf-8", "replace"))
    return match[1] if match else None


def source_offsets(data: bytes) -> tuple[str, ...]:
    """How far each source goes, by a file of `offsets/`: JSON, or "-" for a source that has brought nothing.

    Raises Damaged, FromNewerSpark.
    """
    version, lines = _lines(data)
    if not lines:
        raise Damaged("it ends after its first line")
    if lines[0] and not isinstance(_json(lines[0]), dict):
        raise Damaged("its second line is no JSON object")
    if version == 1 and (len(lines) < 2 or not all(lines[1:])):
        raise Damaged("it does not say how far the sources go")
    for line in lines[1:]:
        if line.startswith(("{", "[")):
            _json(line)
    return tuple(lines[1:])


def check_commit(data: bytes) -> None:
    """Raise Damaged or FromNewerSpark for a file of `commits/`."""
    _, lines = _lines(data)
    if not lines or not isinstance(_json(lines[0]), dict):
        raise Damaged("it ends before its second line" if not lines else "its second line is no JSON object")


def check_source(data: bytes) -> None:
    """Raise Damaged for a file of a source's own log that is empty, or is one of Spark's logs and cut off.

    Sources write what they like there: what does not begin as Spark's logs do is not judged.
    """
    if not data:
        raise Damaged("it is empty")
    data = data.removeprefix(b"\0")  # Kafka's begins so
    if re.match(rb"v\d*(\n|\Z)", data) is None:
        return
    _, *lines = _text(data).split("\n")
    if not lines or not lines[-1]:
        raise Damaged("it ends before its second line" if len(lines) < 2 else "its last line is missing")
    for line in lines:
        if line.startswith("{"):
            _json(line)


def file_log_offset(line: str) -> int | None:
    """Up to which file of its log a source of files goes, by its line in `offsets/`; None for other sources.

    >>> file_log_offset('{"logOffset":12}'), file_log_offset("-")
    (12, None)
    """
    if not line.startswith("{"):
        return None
    found = _json(line)
    offset = found.get("logOffset")
    return offset if list(found) == ["logOffset"] and isinstance(offset, int) else None


def fits(data: bytes, checksum: bytes) -> bool:
    """Whether a file is as Spark wrote it, by the checksum file that Hadoop puts beside it on a local disk."""
    each = int.from_bytes(checksum[4:8], "big")
    if not checksum.startswith(_CRC) or each == 0:
        return False
    parts = (data[at : at + each] for at in range(0, len(data), each))
    return checksum[8:] == b"".join(zlib.crc32(part).to_bytes(4, "big") for part in parts)


def _lines(data: bytes) -> tuple[int, list[str]]:
    """The version of a log file and the lines after it."""
    text = _text(data)
    first, *rest = text.split("\n")
    match = re.fullmatch(r"v(\d+)", first)
    if match is None:
        raise Damaged("it is empty" if not text else f"it begins with {first[:20]!r}, and not with a version")
    if int(match[1]) > NEWEST_VERSION:
        raise FromNewerSpark(f"it is of version {match[1]}")
    return int(match[1]), rest


def _text(data: bytes) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise Damaged(f"byte {error.start} is no UTF-8") from error


def _json(text: str) -> Any:
    if not text:
        raise Damaged("it is empty, or ends too soon")
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Damaged(f"it is cut off or altered: {error}") from error
