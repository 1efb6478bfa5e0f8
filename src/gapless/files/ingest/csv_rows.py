"""A CSV file in blocks of whole rows, cut outside of quotes, and these as columns of texts.

Arrow is given one block at a time, in memory of its own, and is through with it when it returns: nothing reads ahead.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import pyarrow as pa
from pyarrow import csv

from gapless.errors import UnreadableInput
from gapless.files.ingest import text_file
from gapless.files.ingest.input_file import InputFile
from gapless.files.ingest.quotes import MalformedQuote, Marks, QuotedText, column_at, lines_in
from gapless.files.ingest.text_file import TextFile, refuse_long
from gapless.model.input_formats import Csv


@dataclass(frozen=True, slots=True, kw_only=True)
class RowBlock:
    """Whole rows of a file, as UTF-8."""

    data: bytes
    """Escaped quotes are doubled ones."""
    line: int
    """The number of its first line in the file, from 1."""
    marks: Marks
    quoted: bool
    """Whether it holds fields in quotes."""

    @property
    def text(self) -> QuotedText:
        """The block with its quotes looked up; escape characters mean nothing any more."""
        quote = self.marks.quote if self.quoted else None
        return QuotedText(data=self.data, marks=replace(self.marks, quote=quote, escape=None), final=True)

    def split_header(self) -> tuple[bytes, RowBlock | None]:
        """The first row, and the rows after it where there are any."""
        starts = self.text.row_starts()
        if not starts.size:
            return b"", None
        if starts.size == 1:
            return self.data, None
        at = int(starts[1])
        return self.data[:at], replace(self, data=self.data[at:], line=self.line + lines_in(self.data[:at]))

    def line_of_row(self, number: int) -> int:
        """The line in which a row of the block begins; rows count from 1."""
        starts = self.text.row_starts()
        return self.line + lines_in(self.data[: int(starts[number - 1])])


def marks_of(options: Csv) -> Marks:
    """The characters that divide a file."""
    escape = None if options.escape in (None, options.quote) else ord(options.escape or "")
    return Marks(delimiter=ord(options.delimiter), quote=ord(options.quote) if options.quote else None, escape=escape)


def row_blocks(file: InputFile, options: Csv) -> Iterator[RowBlock]:
    """A file in blocks of whole rows, of about 1 MiB; larger only where one row is. With no rows and no header there is none.

    Raises UnreadableInput for quotes that are malformed or never closed, and for a row longer than `max_line_size`; OSError.
    """
    source = TextFile(file, "CSV", options.encoding)
    try:
        if options.columns is None:
            source.refuse_json()
        yield from _Cutter(source, file.name, options).blocks()
    finally:
        source.close()


class _Cutter:
    """Cuts what a file gives into blocks of whole rows."""

    def __init__(self, source: TextFile, name: str, options: Csv) -> None:
        self._source = source
        self._name = name
        self._marks = marks_of(options)
        self._quote = options.quote
        self._longest = options.max_line_size
        self._skip = options.skip_rows
        self._line = 1

    def blocks(self) -> Iterator[RowBlock]:
        rest = self._skip_lines()
        while True:
            text = self._whole_rows(rest)
            if not text.data:
                return
            end = len(text.data) if text.final else text.end_of_rows()
            whole = text.first_rows(end)
            block = RowBlock(data=whole.unescaped(), line=self._line, marks=self._marks, quoted=bool(whole.quotes.size))
            self._line += lines_in(whole.data)
            yield block
            if text.final:
                return
            rest = text.data[end:]

    def _skip_lines(self) -> bytes:
        """Leave out the lines that are no CSV; what was read after them."""
        rest = b""
        while self._line <= self._skip:
            more = self._source.read(text_file.BLOCK_BYTES)
            lines = (rest + more).splitlines(keepends=True)
            # The last line may be cut, or end in a carriage return whose line feed comes next.
            known = lines[:-1] if more else lines
            left_out = known[: self._skip - self._line + 1]
            self._line += len(left_out)
            rest = b"".join(lines[len(left_out) :])
            if not more:
                return rest
        return rest

    def _whole_rows(self, rest: bytes) -> QuotedText:
        """More of the file after `rest`, until it holds the end of a row or ends."""
        data, count = rest, text_file.BLOCK_BYTES
        while True:
            more = self._source.read(max(count, 1))
            data += more
            text = QuotedText(data=data, marks=self._marks, final=not more)
            try:
                unclosed, end = text.unclosed(), 0 if text.final else text.end_of_rows()
            except MalformedQuote as malformed:
                raise self._refuse_quote(data, malformed) from malformed
            if text.final and unclosed is not None:
                raise self._refuse_unclosed(data, unclosed)
            if self._longest < text_file.BLOCK_BYTES:
                self._check_rows(text, end)
            if text.final or end:
                return text
            if len(data) > self._longest:
                raise self._refuse_long(data, unclosed)
            count = min(len(data), self._longest + 1 - len(data))

    def _check_rows(self, text: QuotedText, end: int) -> None:
        """Refuse a row that is too long in a block that may hold many."""
        starts = [*text.row_starts().tolist(), end or len(text.data)]
        for start, stop in pairwise(starts):
            if stop - start > self._longest:
                raise refuse_long(self._name, self._line + lines_in(text.data[:start]), self._longest)

    def _place(self, data: bytes, at: int) -> str:
        return f"line {self._line + lines_in(data[:at])}, column {column_at(data, at)}"

    def _refuse_quote(self, data: bytes, malformed: MalformedQuote) -> UnreadableInput:
        at, opened = malformed.at, malformed.opened
        after = data[at + 1 : at + 21].decode("utf-8", errors="replace").partition("\n")[0]
        if opened is None:
            what, fix = (
                f"a {self._quote} stands after blanks at {self._place(data, at)} of {self._name}",
                "Take the blanks before it away, or pass Csv(quote=None) if that character means nothing",
            )
            why = "A quoted field begins with its quote; with blanks before it the field might be meant to be quoted, or not"
        else:
            what = f"a quoted field ends at {self._place(data, at)} of {self._name} and {after!r} follows it"
            why = f"The field begins at {self._place(data, opened)}; a {self._quote} within it is doubled, by RFC 4180"
            if data[at - 1 : at] == b"\\" and self._marks.escape is None:
                fix = 'Pass Csv(escape="\\\\") where a backslash stands before quotes, as Spark and MySQL write them'
            else:
                fix = "Double that quote, or close the field before it, or pass Csv(quote=None) if that character means nothing"
        return UnreadableInput(what, why=why, fix=fix, source=self._name)

    def _refuse_unclosed(self, data: bytes, at: int) -> UnreadableInput:
        begins = data[at : at + 60].decode("utf-8", errors="replace")
        return UnreadableInput(
            f"{self._name} ends within a quoted field, which begins at {self._place(data, at)} with {begins!r}",
            why=f"A {self._quote} was opened and never closed, so the lines after it are no rows",
            fix="Mend the file, or pass Csv(quote=None) if that character means nothing",
            source=self._name,
        )

    def _refuse_long(self, data: bytes, unclosed: int | None) -> UnreadableInput:
        fix = ""
        if unclosed is not None:
            fix = f"Close the quote at {self._place(data, unclosed)}; if it is meant so, pass a larger max_line_size="
        return refuse_long(self._name, self._line, self._longest, fix)


@dataclass(frozen=True, kw_only=True)
class TextColumns:
    """Reads blocks of one file as columns of texts."""

    name: str
    count: int
    """Columns."""
    nulls: Sequence[str]

    def __post_init__(self) -> None:
        """Make Arrow's options, which are the same for every block."""
        names = [str(number) for number in range(self.count)]
        convert = csv.ConvertOptions(
            column_types=dict.fromkeys(names, pa.string()),
            null_values=list(self.nulls),
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        )
        object.__setattr__(self, "_names", names)
        object.__setattr__(self, "_convert", convert)

    def read(self, block: RowBlock) -> list[pa.Array]:
        """The columns of a block, in order; null where a text that is not quoted is one of `nulls`. Raises UnreadableInput."""
        wrong: list[csv.InvalidRow] = []

        def note(row: csv.InvalidRow) -> str:
            wrong.append(row)
            return "error"

        quote = chr(block.marks.quote) if block.quoted and block.marks.quote is not None else False
        try:
            table = csv.read_csv(
                _arrow_memory(block.data),
                read_options=csv.ReadOptions(
                    use_threads=False,  # else rows have no numbers
                    block_size=len(block.data) + 1,
                    column_names=self._names,  # type: ignore[attr-defined]  # of __post_init__
                ),
                parse_options=csv.ParseOptions(
                    delimiter=chr(block.marks.delimiter),
                    quote_char=quote,
                    newlines_in_values=bool(quote),
                    invalid_row_handler=note,
                ),
                convert_options=self._convert,  # type: ignore[attr-defined]
            )
        except pa.ArrowInvalid as refused:
            if wrong:
                raise self._refuse_row(block, wrong[0]) from refused
            self._check_characters(block)
            raise
        return [column.combine_chunks() if column.num_chunks != 1 else column.chunk(0) for column in table.itercolumns()]

    def _refuse_row(self, block: RowBlock, row: csv.InvalidRow) -> UnreadableInput:
        line = block.line_of_row(row.number)
        fix = "Mend that line, quote fields that hold the delimiter, or pass Csv(delimiter=…, quote=…, skip_rows=…)"
        if row.actual_columns == row.expected_columns + 1 and row.text.rstrip("\r\n").endswith(chr(block.marks.delimiter)):
            fix = 'Take the delimiter at the end of lines away, or name the column after it "": Csv(columns=[…, ""])'
        return UnreadableInput(
            f"line {line} of {self.name} has {_fields(row.actual_columns)} instead of {row.expected_columns}",
            why=f"Expected {row.expected_columns} columns, got {row.actual_columns}: {row.text[:200]!r}",
            fix=fix,
            source=self.name,
        )

    def _check_characters(self, block: RowBlock) -> None:
        try:
            block.data.decode("utf-8")
        except UnicodeDecodeError as wrong:
            place = f"line {block.line + lines_in(block.data[: wrong.start])}, column {column_at(block.data, wrong.start)}"
            raise UnreadableInput(
                f"{self.name} holds bytes that are not UTF-8 at {place}",
                why=f"They are {block.data[wrong.start : wrong.end].hex(' ')}: {wrong.reason}",
                fix='Pass the encoding of the file, such as Csv(encoding="cp1252")',
                source=self.name,
            ) from wrong


def _fields(count: int) -> str:
    return "1 field" if count == 1 else f"{count} fields"


def _arrow_memory(data: bytes) -> pa.BufferReader:
    """A copy that no thread of Arrow needs Python to free."""
    copy = pa.allocate_buffer(len(data))
    np.frombuffer(copy, np.uint8)[:] = np.frombuffer(data, np.uint8)
    return pa.BufferReader(copy)


def header_names(header: bytes, name: str, marks: Marks) -> list[str]:
    """The texts of a header line. Raises UnreadableInput."""
    line = header.rstrip(b"\r\n") + b"\n"
    split = csv.ParseOptions(
        delimiter=chr(marks.delimiter),
        quote_char=chr(marks.quote) if marks.quote is not None else False,
        newlines_in_values=marks.quote is not None,
    )
    read = csv.ReadOptions(use_threads=False, block_size=len(line) + 1)
    try:
        return list(csv.read_csv(_arrow_memory(line), read_options=read, parse_options=split).column_names)
    except (pa.ArrowInvalid, UnicodeError) as wrong:
        raise UnreadableInput(
            f"the header of {name} cannot be read",
            why=" ".join(str(wrong).split())[:500],
            fix='Pass the encoding of the file, such as Csv(encoding="cp1252")',
            source=name,
        ) from wrong
