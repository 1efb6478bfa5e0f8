"""Text files as UTF-8: decompressed and decoded by what their first bytes say."""

from __future__ import annotations

import codecs
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from gapless.errors import UnreadableInput
from gapless.files.ingest.first_bytes import (
    HEAD_BYTES,
    SUFFIX_OF_CODEC,
    encoding_of,
    identify,
    identify_text,
    refuse_content,
)
from gapless.files.ingest.input_file import InputFile

BLOCK_BYTES = 1 << 20
"""Text read at a time."""

_PLAIN = (".csv", ".tsv", ".json", ".jsonl", ".ndjson", ".parquet", ".pq")


class TextFile:
    """A file open for reading; what it gives is UTF-8, decompressed and without a byte order mark.

    Arrow decompresses in this thread and in memory of its own: none of its threads ever holds an object of Python.
    """

    def __init__(self, file: InputFile, wanted: str, encoding: str = "utf-8") -> None:
        """Open a file; `wanted` is what it should be, such as "CSV", and `encoding` the declared one.

        Raises OSError, and UnreadableInput where its first bytes say that it is something else.
        """
        self._name = file.name
        self._stream = pa.input_stream(str(file.path), compression=_codec_of(file, wanted))
        try:
            self._begin(self._stream.read(HEAD_BYTES) or b"", wanted, encoding)
        except BaseException:
            self._stream.close()
            raise

    def _begin(self, head: bytes, wanted: str, encoding: str) -> None:
        if (found := identify(head)) is not None:
            raise refuse_content(self._name, found, wanted)
        encoded = encoding_of(head, encoding, self._name)
        self._ahead = head[encoded.mark :]
        self._encoding = encoded.name
        self._decoder = None if encoded.name == "utf-8" else codecs.getincrementaldecoder(encoded.name)()
        self._lines = 1
        self._ended = False

    @property
    def head(self) -> str:
        """The first characters, before anything was read."""
        return self._ahead.decode(self._encoding, errors="replace")

    def refuse_json(self) -> None:
        """Raise UnreadableInput where it begins as JSON."""
        if (found := identify_text(self.head)) is not None:
            raise refuse_content(self._name, found, "CSV")

    def read(self, count: int) -> bytes:
        """About `count` bytes of UTF-8; none at the end. Raises UnreadableInput for bytes that the encoding does not have."""
        while not self._ended:
            ahead, self._ahead = self._ahead[:count], self._ahead[count:]
            block = ahead or self._stream.read(count) or b""
            self._ended = not block
            found = block if self._decoder is None else self._decode(block)
            if found:
                return found
        return b""

    def _decode(self, block: bytes) -> bytes:
        assert self._decoder is not None
        try:
            text = self._decoder.decode(block, final=not block)
        except UnicodeDecodeError as wrong:
            read = wrong.object[: wrong.start].decode(self._encoding, errors="replace")
            raise UnreadableInput(
                f"line {self._lines + read.count(chr(10))} of {self._name} is not {self._encoding}",
                why=f"It holds the bytes {wrong.object[wrong.start : wrong.end].hex(' ')}: {wrong.reason}",
                fix='Pass the encoding of the file, such as Csv(encoding="cp1252")',
                source=self._name,
            ) from wrong
        self._lines += text.count("\n")
        return bytes(text.encode("utf-8"))

    def close(self) -> None:
        """Give the file back."""
        self._stream.close()

    def lines(self, longest: int) -> Iterator[bytes]:
        """Lines without their ends; a last line without a line feed counts too.

        Raises UnreadableInput for one of more than `longest` bytes.
        """
        parts: list[bytes] = []
        held = number = 0
        while block := self.read(BLOCK_BYTES):
            first, *more = block.split(b"\n")
            parts.append(first)
            held += len(first)
            if more:
                yield self._checked(b"".join(parts), number := number + 1, longest)
                *whole, rest = more
                for line in whole:
                    yield self._checked(line, number := number + 1, longest)
                parts, held = [rest], len(rest)
            if held > longest:
                raise refuse_long(self._name, number + 1, longest)
        if held:
            yield b"".join(parts)

    def _checked(self, line: bytes, number: int, longest: int) -> bytes:
        if len(line) > longest:
            raise refuse_long(self._name, number, longest)
        return line


def refuse_long(name: str, line: int, longest: int, fix: str = "") -> UnreadableInput:
    """The error for a row, which begins in this line, of more than `longest` bytes."""
    return UnreadableInput(
        f"the row that begins in line {line} of {name} is longer than {longest:,} bytes",
        why="A row is held in memory whole, and max_line_size bounds that",
        fix=fix or "Pass a larger max_line_size=",
        source=name,
    )


def _codec_of(file: InputFile, wanted: str) -> str | None:
    """How a file is compressed by its first bytes; raises UnreadableInput where its name says otherwise."""
    found = identify(file.head(HEAD_BYTES))
    name = Path("" if file.copied else file.path.name.lower())
    named = next((codec for codec, suffix in SUFFIX_OF_CODEC.items() if name.suffix == suffix), None)
    if found is not None and found.codec is None:
        raise refuse_content(file.name, found, wanted)
    codec = found.codec if found is not None else None
    if named is not None and codec != named:
        is_ = found.noun if found is not None else f"not compressed with {named}"
        raise UnreadableInput(
            f"{file.name} is {is_}",
            why="Its first bytes say so, and its name says otherwise",
            fix="Fetch it again where it was cut short or damaged; else rename it",
            source=file.name,
        )
    if found is not None and name.suffix in _PLAIN:
        raise UnreadableInput(
            f"{file.name} is {found.noun}",
            why=f"Its first bytes say so, and a name that ends in {name.suffix} is that of a plain file",
            fix=f"Rename it to {file.path.name}{SUFFIX_OF_CODEC[found.codec or 'gzip']}, or decompress it",
            source=file.name,
        )
    return codec


def text_name(path: Path) -> str:
    """A file's name without a suffix that says how it is compressed, in lower case."""
    name = path.name.lower()
    for suffix in SUFFIX_OF_CODEC.values():
        name = name.removesuffix(suffix)
    return name
