"""Where quotes begin and end: what Python's csv module reads, or an error with its place; never another text."""

from __future__ import annotations

import csv
import io
import itertools
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gapless.errors import UnreadableInput
from gapless.files.ingest import text_file
from gapless.files.ingest.files import open_file
from gapless.files.ingest.quotes import MalformedQuote, Marks, QuotedText, lines_in
from gapless.model.input_formats import Csv

COMMA = Marks(delimiter=ord(","), quote=ord('"'))
BACKSLASH = Marks(delimiter=ord(","), quote=ord('"'), escape=ord("\\"))


def rows(folder: Path, text: str | bytes, options: Csv | None = None) -> list[list[str | None]]:
    """The rows of a file as texts."""
    path = folder / "x.csv"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    names = ["a", "b"] if options is None else list(options.columns or ("a", "b"))
    options = options or Csv(header=False, columns=names, nulls=[], types=dict.fromkeys(names, "string"))
    found = pa.Table.from_batches(open_file(path, options, index=None), pa.schema([(name, pa.string()) for name in names]))
    return [list(row.values()) for row in found.to_pylist()]


def plain(**options: object) -> Csv:
    given: dict[str, object] = {"header": False, "columns": ["a", "b"], "nulls": [], "types": {"a": "string", "b": "string"}}
    return Csv(**(given | options))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("line", "place", "option"),
    [
        (b'1,"say \\"hi\\""\n', "line 2, column 9", "escape"),
        (b'1,"x"y\n', "line 2, column 5", "Double that quote"),
        (b'1,"x" \n', "line 2, column 5", "Double that quote"),
        (b'1,"x""\n', "line 2, column 3", "never closed"),
        (b'1,"x\n2,y\n', "line 2, column 3", "never closed"),
        (b'1,"x\n2,"y"\n', "line 3, column 3", "begins at line 2, column 3"),
        (b'1, "x"\n', "line 2, column 4", "blanks"),
        (b' "1",x\n', "line 2, column 2", "blanks"),
        ('é,"é"é\n'.encode(), "line 2, column 5", "Double that quote"),
    ],
)
def test_t2_10_a_malformed_quote_is_refused_with_line_and_column(tmp_path: Path, line: bytes, place: str, option: str) -> None:
    with pytest.raises(UnreadableInput) as caught:
        rows(tmp_path, b"0,0\n" + line)
    assert place in str(caught.value)
    assert option in str(caught.value)
    assert caught.value.source.endswith("x.csv")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('1,"say \\"hi\\""', 'say "hi"'),
        ('1,"\\"', None),
        ('1,"\\\\"', "\\"),
        ('1,"\\\\\\""', '\\"'),
        ('1,"a\\\\\\\\b"', "a\\\\b"),
        ('1,"C:\\temp"', "C:\\temp"),
        ('1,"say ""hi"""', 'say "hi"'),
        ('1,"\\"\\""', '""'),
        ('1,"a\\"\nb\\",c"', 'a"\nb",c'),
        ("1,C:\\", "C:\\"),
        ("1,\\N", "\\N"),
        ('1,x\\"y', 'x\\"y'),
        ('1,""', ""),
    ],
)
def test_t2_10_an_escape_stands_before_quotes_and_itself_within_quotes(tmp_path: Path, text: str, expected: str | None) -> None:
    options = plain(escape="\\")
    if expected is None:
        with pytest.raises(UnreadableInput, match="never closed"):
            rows(tmp_path, text, options)
        return
    assert rows(tmp_path, text, options) == [["1", expected]]
    assert rows(tmp_path, f"{text}\r\n2,z\r\n", options) == [["1", expected], ["2", "z"]]


def test_t2_10_an_escape_that_is_the_quote_means_doubled_quotes(tmp_path: Path) -> None:
    assert rows(tmp_path, '1,"a ""b"""\n', plain(escape='"')) == [["1", 'a "b"']]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('1,5" pipe\n2,x\n', [["1", '5" pipe'], ["2", "x"]]),
        ('1,5"\n2,6"\n3,"a,b"\n', [["1", '5"'], ["2", '6"'], ["3", "a,b"]]),
        ('5",6"\n"a\n"",",b\n', [['5"', '6"'], ['a\n",', "b"]]),
        ('x"y"z,"x""y"\n', [['x"y"z', 'x"y']]),
        ('1,a""b\n', [["1", 'a""b']]),
    ],
)
def test_t2_10_a_quote_within_a_field_that_is_not_quoted_is_a_character(
    tmp_path: Path, text: str, expected: list[list[str]]
) -> None:
    assert rows(tmp_path, text) == expected == list(csv.reader(io.StringIO(text)))


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|", " "])
@pytest.mark.parametrize("quote", ['"', "'"])
@pytest.mark.parametrize("line_end", ["\n", "\r\n", "\r"])
def test_t2_10_delimiters_quotes_and_line_ends_of_every_kind(tmp_path: Path, delimiter: str, quote: str, line_end: str) -> None:
    fields = ["plain", f"a{delimiter}b", f"a{quote}{quote}b", f"x{line_end}y", "", f"{quote}"]
    expected = [[one, other] for one, other in itertools.product(fields, fields)]
    quoted = [[f"{quote}{field.replace(quote, 2 * quote)}{quote}" for field in row] for row in expected]
    text = "".join(delimiter.join(row) + line_end for row in quoted)
    assert rows(tmp_path, text, plain(delimiter=delimiter, quote=quote)) == expected


def test_t2_10_without_quotes_they_are_characters(tmp_path: Path) -> None:
    assert rows(tmp_path, '1,"a\n"2,b"c\n', plain(quote=None)) == [["1", '"a'], ['"2', 'b"c']]


_PIECES = st.text(alphabet=['"', ",", "\n", "a", "\\", " "], max_size=14)


@given(text=_PIECES, block=st.sampled_from([3, 7, 1 << 20]))
def test_what_is_read_is_what_pythons_reader_reads_or_an_error(
    tmp_path_factory: pytest.TempPathFactory, text: str, block: int
) -> None:
    folder = tmp_path_factory.getbasetemp()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text_file, "BLOCK_BYTES", block)
        try:
            found = rows(folder, text, plain(columns=["a"], types={"a": "string"}, delimiter=";"))
        except UnreadableInput:
            return
    wanted = [row for row in csv.reader(io.StringIO(text), delimiter=";") if row]
    assert found == wanted


@given(
    table=st.lists(st.tuples(_PIECES, _PIECES), max_size=6),
    escape=st.sampled_from([None, "\\"]),
    block=st.sampled_from([4, 9, 1 << 20]),
)
def test_what_is_written_is_read(
    tmp_path_factory: pytest.TempPathFactory, table: list[tuple[str, str]], escape: str | None, block: int
) -> None:
    lines = []
    for row in table:
        fields = [field.replace("\\", "\\\\").replace('"', '\\"') if escape else field.replace('"', '""') for field in row]
        lines.append(",".join(f'"{field}"' for field in fields))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text_file, "BLOCK_BYTES", block)
        found = rows(tmp_path_factory.getbasetemp(), "\n".join(lines), plain(escape=escape))
    assert found == [list(row) for row in table]


@given(data=st.text(alphabet=['"', ",", "\n", "\r", "a", " "], max_size=24).map(str.encode))
def test_the_fast_way_and_the_careful_way_find_the_same_quotes(data: bytes) -> None:
    text = QuotedText(data=data, marks=COMMA, final=True)
    all_quotes = text.view.nonzero()[0][text.view[text.view.nonzero()[0]] == 34]
    try:
        careful = text._one_by_one(all_quotes).tolist()
    except MalformedQuote:
        with pytest.raises(MalformedQuote):
            _ = text.quotes
        return
    assert text.quotes.tolist() == careful


def test_escapes_are_taken_away_within_quotes_alone() -> None:
    text = QuotedText(data=b'\\,"\\"a\\\\"\n', marks=BACKSLASH, final=True)
    assert text.unescaped() == b'\\,"""a\\"\n'


@pytest.mark.parametrize(("data", "count"), [(b"", 0), (b"a", 0), (b"a\nb\r\nc\rd", 3), (b"\r\r\n\n", 3)])
def test_lines_are_counted_by_any_line_end(data: bytes, count: int) -> None:
    assert lines_in(data) == count
