"""What the first bytes of a file say: its format, how it is compressed, and how its characters are encoded. Pure."""

from __future__ import annotations

import codecs
import re
from dataclasses import dataclass

from gapless.errors import UnreadableInput

HEAD_BYTES = 1024
"""Bytes that are looked at."""

SUFFIX_OF_CODEC = {"gzip": ".gz", "bz2": ".bz2", "zstd": ".zst", "lz4": ".lz4"}
"""The codecs that are read, in Arrow's names, and how names of such files end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """What a file is by its first bytes."""

    noun: str
    """As in "x.csv is …"."""
    fix: str
    codec: str | None = None
    """How it is compressed, where that is one that is read."""


_PARQUET = Content(noun="a Parquet file", fix='Pass format="parquet", or name it .parquet')
_DECOMPRESS = "Decompress it; Parquet compresses its own pages"
_UNPACK = "Unpack it first, and append the files in it"
_SHEET = "Save the sheet as CSV, or read it with pandas.read_excel and append the data frame"
_ARROW = Content(noun="an Arrow IPC (Feather) file", fix="Append pyarrow.feather.read_table(path), or write it as Parquet")

_MAGIC: tuple[tuple[bytes, Content], ...] = (
    (b"\x1f\x8b", Content(noun="compressed with gzip", fix=_DECOMPRESS, codec="gzip")),
    (b"\x28\xb5\x2f\xfd", Content(noun="compressed with zstd", fix=_DECOMPRESS, codec="zstd")),
    (b"\x04\x22\x4d\x18", Content(noun="compressed with lz4", fix=_DECOMPRESS, codec="lz4")),
    (b"\xfd7zXZ\x00", Content(noun="compressed with xz", fix="Unpack it first (xz -d), or compress it with gzip or zstd")),
    (b"PAR1", _PARQUET),
    (b"PARE", Content(noun="an encrypted Parquet file", fix="Write it anew, decrypted")),
    (b"ARROW1", _ARROW),
    (b"ORC", Content(noun="an ORC file", fix="Append pyarrow.orc.read_table(path), or write it as Parquet")),
    (b"Obj\x01", Content(noun="an Avro file", fix="Write it as Parquet")),
    (b"SQLite format 3\x00", Content(noun="an SQLite database", fix="Query it, and append the rows")),
    (b"\x89HDF\r\n\x1a\n", Content(noun="an HDF5 file", fix="Read it with pandas.read_hdf and append the data frame")),
    (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", Content(noun="an old Excel workbook (.xls)", fix=_SHEET)),
    (b"7z\xbc\xaf\x27\x1c", Content(noun="a 7z archive", fix=_UNPACK)),
    (b"Rar!\x1a\x07", Content(noun="a RAR archive", fix=_UNPACK)),
    (b"%PDF-", Content(noun="a PDF document", fix="Fetch the table as CSV or Parquet")),
)
_BZIP2 = re.compile(rb"BZh[1-9](1AY&SY|\x17rE8P\x90)")
_PAGE = re.compile(rb"(\xef\xbb\xbf)?\s*<(!doctype html|html|\?xml)\b", re.IGNORECASE)
_OBJECT = re.compile(r'\s*\{\s*("(?:[^"\\]|\\.)*"\s*:|\}\s*(\n|$))')
_ARRAY = re.compile(r'\s*\[\s*\{\s*"')


def identify(head: bytes) -> Content | None:
    """What a file is that begins with these bytes; None where they are text, or say nothing."""
    if _BZIP2.match(head):
        return Content(noun="compressed with bzip2", fix=_DECOMPRESS, codec="bz2")
    if head[:4] in (b"PK\x03\x04", b"PK\x05\x06"):
        return _in_zip(head)
    if head[257:262] == b"ustar":
        return Content(noun="a tar archive", fix=_UNPACK)
    if _PAGE.match(head):
        return Content(noun="an HTML or XML page", fix="Fetch it again: a login or error page was mostly saved in its place")
    return next((content for magic, content in _MAGIC if head.startswith(magic)), None)


def _in_zip(head: bytes) -> Content:
    if any(part in head for part in (b"[Content_Types].xml", b"xl/", b"_rels/")):
        return Content(noun="an Excel workbook (.xlsx) or another Office document", fix=_SHEET)
    if b"opendocument" in head:
        return Content(noun="an OpenDocument file (.ods)", fix=_SHEET)
    return Content(noun="a zip archive", fix=_UNPACK)


def is_parquet(head: bytes) -> bool:
    """Whether a file that begins with these bytes is Parquet."""
    return head.startswith(b"PAR1")


def identify_text(head: str) -> Content | None:
    """What a text is that begins with these characters, where it is not CSV: JSON lines, or a JSON array."""
    if _OBJECT.match(head):
        return Content(noun="a file of JSON lines", fix='Pass format="jsonl", or name it .jsonl')
    if _ARRAY.match(head):
        return Content(noun="a JSON array", fix="Write it as JSON lines, one object a line, and name it .jsonl")
    return None


def refuse_content(name: str, found: Content, wanted: str) -> UnreadableInput:
    """The error for a file that is something else than was `wanted` of it, such as "CSV"."""
    what = f"{name} is {found.noun}, not {wanted}"
    return UnreadableInput(what, why="Its first bytes say so, whatever its name is", fix=found.fix, source=name)


# -- encodings -----------------------------------------------------------------------------------------------------------

_MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Encoding:
    """How the characters of a file are encoded."""

    name: str
    """In Python's names."""
    mark: int
    """Length of the byte order mark at the beginning, in bytes."""


def encoding_of(head: bytes, declared: str, source: str) -> Encoding:
    """The encoding of a file that begins with `head`: the declared one, or UTF-8 or UTF-16 where a byte order mark says so.

    Raises UnreadableInput where the mark contradicts what was declared ("utf-8" contradicts nothing: it is the default), where the file
    is UTF-32 and that was not declared, and where it looks like UTF-16 or UTF-32 without a mark.
    """
    wanted = codecs.lookup(declared).name
    mark, marked = next(((mark, name) for mark, name in _MARKS if head.startswith(mark)), (b"", ""))
    if marked:
        if not _agree(marked, wanted):
            raise _refuse_encoding(source, f"begins with the mark of {_shown(marked)}", marked, declared)
        return Encoding(name=marked, mark=len(mark))
    if wanted in _DEFAULT and (looks := _unmarked(head)):
        raise _refuse_encoding(source, f"looks like {_shown(looks)} without a mark", looks, declared)
    return Encoding(name="utf-8" if wanted in _DEFAULT else wanted, mark=0)


_DEFAULT = ("utf-8", "utf-8-sig")


def _agree(marked: str, wanted: str) -> bool:
    if wanted in _DEFAULT:
        return not marked.startswith("utf-32")
    return marked.startswith(wanted)


def _shown(name: str) -> str:
    return name.upper().replace("-LE", " (little-endian)").replace("-BE", " (big-endian)")


def _refuse_encoding(source: str, says: str, name: str, declared: str) -> UnreadableInput:
    return UnreadableInput(
        f"{source} {says}",
        why=f"It is read as {declared}, and would give other characters",
        fix=f'Pass Csv(encoding="{name}"); JSON lines are written anew as UTF-8',
        source=source,
    )


def _unmarked(head: bytes) -> str:
    """The encoding of a text of which most characters are ASCII: every other byte of it is zero; "" for any other."""
    for name, width, kept, share in (
        ("utf-32-le", 4, 0, 0.9), ("utf-32-be", 4, 3, 0.9), ("utf-16-le", 2, 0, 0.6), ("utf-16-be", 2, 1, 0.6),
    ):  # fmt: skip
        sample = head[: min(len(head), 64) // width * width]
        others = b"".join(sample[at::width] for at in range(width) if at != kept)
        letters = sample[kept::width]
        if len(letters) >= 2 and letters.count(0) <= 0.1 * len(letters) and others.count(0) >= share * len(others):
            return name
    return ""
