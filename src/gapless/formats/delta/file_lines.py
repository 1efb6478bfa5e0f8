"""The file actions of long commits, decoded by msgspec as they lie in the log; what is not just as expected is left to `commit_codec`."""

from __future__ import annotations

import msgspec

from gapless.formats.delta.actions import AddFile, RemoveFile

LONG_BYTES = 4_096
"""In shorter commits it makes no difference how lines are decoded."""
_BEGINNINGS = (b'{"add":', b'{"remove":')


class _Line(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    add: AddFile | None = None
    remove: RemoveFile | None = None


_DECODER = msgspec.json.Decoder(_Line)


def find_file_lines(data: bytes) -> tuple[int, int]:
    r"""The bytes `[start, end)` of a commit from its first line of a file action through its last; empty where there is none.

    >>> data = b'{"commitInfo":{}}\n{"add":{}}\n'
    >>> data[slice(*find_file_lines(data))]
    b'{"add":{}}\n'
    """
    start, last = len(data), -1
    for beginning in _BEGINNINGS:
        # Mostly one kind is all there is: it narrows where the other is looked for.
        first = 0 if data.startswith(beginning) else data.find(b"\n" + beginning, 0, start) + 1
        if first or data.startswith(beginning):
            start = min(start, first)
        last = max(last, data.rfind(b"\n" + beginning, max(last, 0)) + 1)
    if start == len(data):
        return 0, 0
    return start, data.find(b"\n", max(start, last)) + 1 or len(data)


def decode_file_lines(data: bytes, start: int, end: int) -> list[AddFile | RemoveFile] | None:
    """The actions of the lines in these bytes, all `add` or `remove`, in order; None where one is anything else, be it an error or not."""
    try:
        if not data.isascii():
            data.decode()  # msgspec does not look at the text of what it passes over
        lines = _DECODER.decode_lines(memoryview(data)[start:end])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    if len(lines) != data.count(b"\n", start, end) + (not data.endswith(b"\n", start, end)):
        return None
    adds, removes = [line.add for line in lines], [line.remove for line in lines]
    lacking = adds.count(None)
    if not lacking and removes.count(None) == len(lines):
        return adds  # type: ignore[return-value]
    if lacking + removes.count(None) != len(lines):
        return None
    found = [remove if add is None else add for add, remove in zip(adds, removes, strict=True)]
    return None if None in found else found  # type: ignore[return-value]
