"""The form of CSV files: empty ones, delimiters at the end of lines, long rows and wide ones."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gapless as gl
from gapless.errors import GaplessError, InvalidOption, SchemaMismatch, UnreadableInput
from gapless.files.ingest import text_file
from gapless.files.ingest.cells.texts import survey, without
from gapless.files.ingest.column_survey import survey_columns

ROW = "2026-01-05T00:00Z,1\n"
EMPTY = {
    "nothing": b"",
    "a mark": b"\xef\xbb\xbf",
    "blank lines": b"\n\r\n\n",
    "a header": b"ts,v\n",
    "a header without its line end": b"ts,v",
    "a header of windows": b"\xef\xbb\xbfts,v\r\n",
    "a header and blank lines": b"ts,v\n\n\n",
    "a header in UTF-16": "ts,v\n".encode("utf-16"),
}


def series(folder: Path, *, known: bool = False) -> gl.TimeSeriesTable:
    table = gl.create(folder / "t", index="ts", bucket="1h")
    if known:
        (folder / "first.csv").write_text("ts,v\n2026-01-01T00:00Z,1\n")
        table.append_file(folder / "first.csv")
    return table


@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize("content", EMPTY.values(), ids=list(EMPTY))
def test_t2_06_a_file_without_rows_is_no_commit(tmp_path: Path, content: bytes, compressed: bool, known: bool) -> None:
    table = series(tmp_path, known=known)
    path = tmp_path / ("x.csv.gz" if compressed else "x.csv")
    path.write_bytes(gzip.compress(content) if compressed else content)
    before = table.version
    assert table.append_file(path).rows == 0
    assert table.refresh().version == before
    (tmp_path / "y.csv").write_text("ts,v\n" + ROW)
    assert table.append_file([path, tmp_path / "y.csv"]).rows == 1


@pytest.mark.parametrize("content", EMPTY.values(), ids=list(EMPTY))
def test_t2_06_a_delta_table_takes_no_rows_from_it_either(tmp_path: Path, content: bytes) -> None:
    table = gl.delta.create(tmp_path / "d", pa.schema([("ts", pa.timestamp("us", "UTC")), ("v", pa.int64())]))
    (tmp_path / "x.csv").write_bytes(content)
    assert table.append_file(tmp_path / "x.csv").rows == 0
    assert table.refresh().version == 0


@pytest.mark.parametrize("options", [gl.Csv(columns=["ts", "v"]), gl.Csv(columns=["ts", "v"], header=False)])
def test_t2_06_columns_are_given_and_no_rows_are_there(tmp_path: Path, options: gl.Csv) -> None:
    (tmp_path / "x.csv").write_bytes(b"")
    assert series(tmp_path).append_file(tmp_path / "x.csv", format=options).rows == 0


@pytest.mark.parametrize("content", ["", "\n", "\ufeff"])
def test_t2_06_json_lines_without_lines(tmp_path: Path, content: str) -> None:
    (tmp_path / "x.jsonl").write_text(content, encoding="utf-8")
    table = series(tmp_path)
    assert table.append_file(tmp_path / "x.jsonl").rows == 0
    assert table.refresh().version == 1


def test_t2_06_a_header_without_the_index_is_refused_though_no_row_follows(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("ts;v\n")
    with pytest.raises(UnreadableInput, match=r"delimiter=';'"):
        series(tmp_path).append_file(tmp_path / "x.csv")
    (tmp_path / "x.csv").write_text("ts,other\n")
    with pytest.raises(SchemaMismatch, match=r"other"):
        series(tmp_path / "known", known=True).append_file(tmp_path / "x.csv")


# ---- columns without a name


@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("ts,v,\n2026-01-05T00:00Z,1,\n", None),
        ("ts,v, \n2026-01-05T00:00Z,1, \n", None),
        ("ts,v,,\n2026-01-05T00:00Z,1,,\n", None),
        (",ts,v\n,2026-01-05T00:00Z,1\n", None),
        ('ts,v,""\n2026-01-05T00:00Z,1,""\n', None),
        ("2026-01-05T00:00Z,1,\n", gl.Csv(header=False, columns=["ts", "v", ""])),
    ],
)
def test_t2_09_a_column_without_name_and_values_is_left_out(
    tmp_path: Path, text: str, options: gl.Csv | None, known: bool
) -> None:
    (tmp_path / "x.csv").write_text(text)
    table = series(tmp_path, known=known)
    assert table.append_file(tmp_path / "x.csv", format=options).rows == 1
    assert table.schema is not None
    assert table.schema.names == ["ts", "v"]


@pytest.mark.parametrize("known", [False, True])
def test_t2_09_a_column_without_a_name_that_holds_something_is_refused(tmp_path: Path, known: bool) -> None:
    text = "ts,v,\n" + "2026-01-05T00:00Z,1,\n" * 50_000 + "2026-01-05T00:00Z,1,x\n"
    (tmp_path / "x.csv").write_text(text)
    table = series(tmp_path, known=known)
    before = table.version
    with pytest.raises(UnreadableInput, match=r"column 3 of 3 in .*x.csv has no name, and holds 'x' in row 50000.*columns=\["):
        table.append_file(tmp_path / "x.csv")
    assert table.refresh().version == before


def test_t2_09_a_delimiter_at_the_end_of_rows_alone_names_the_way_out(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("ts,v\n2026-01-05T00:00Z,1,\n")
    with pytest.raises(UnreadableInput, match=r'line 2 .* has 3 fields instead of 2.*Csv\(columns=\[…, ""\]\)'):
        series(tmp_path).append_file(tmp_path / "x.csv")
    assert series(tmp_path / "b").append_file(tmp_path / "x.csv", format=gl.Csv(columns=["ts", "v", ""])).rows == 1


# ---- long rows


@pytest.mark.parametrize("quoted", [True, False])
def test_t2_18_a_row_of_more_than_a_block_is_read(tmp_path: Path, quoted: bool) -> None:
    mark, long = '"' if quoted else "", "x" * 3_000_000
    (tmp_path / "x.csv").write_text(f"ts,n\n2026-01-05T00:00Z,{mark}{long}{mark}\n2026-01-05T01:00Z,b\n")
    table = series(tmp_path)
    assert table.append_file(tmp_path / "x.csv").rows == 2
    assert table.scan().to_arrow()["n"].to_pylist() == [long, "b"]


def test_t2_18_json_lines_of_more_than_a_block_are_read(tmp_path: Path) -> None:
    rows = [{"ts": "2026-01-05T00:00Z", "n": "x" * 3_000_000}, {"ts": "2026-01-05T01:00Z", "n": "b"}]
    (tmp_path / "x.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    table = series(tmp_path)
    assert table.append_file(tmp_path / "x.jsonl").rows == 2
    assert table.scan().to_arrow()["n"].to_pylist() == [row["n"] for row in rows]


def test_t2_18_the_limit_is_exact_and_says_the_option(tmp_path: Path) -> None:
    line = "2026-01-05T01:00Z,abc\n"
    (tmp_path / "x.csv").write_text("ts,n\n" + "2026-01-05T00:00Z,a\n" * 3 + line)
    with pytest.raises(UnreadableInput, match=r"line 5 of .* is longer than 21 bytes.*max_line_size") as caught:
        series(tmp_path).append_file(tmp_path / "x.csv", format=gl.Csv(max_line_size=len(line) - 1))
    assert "quote" not in str(caught.value)
    assert series(tmp_path / "b").append_file(tmp_path / "x.csv", format=gl.Csv(max_line_size=len(line))).rows == 4
    (tmp_path / "x.jsonl").write_text('{"ts": "2026-01-05T01:00Z"}\n')
    assert series(tmp_path / "c").append_file(tmp_path / "x.jsonl", format=gl.Json(max_line_size=27)).rows == 1
    with pytest.raises(UnreadableInput, match=r"line 1 of .* is longer than 26 bytes"):
        series(tmp_path / "d").append_file(tmp_path / "x.jsonl", format=gl.Json(max_line_size=26))


def test_t2_18_an_unclosed_quote_is_blamed_where_there_is_one(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text('ts,n\n2026-01-05T00:00Z,"open\n' + ROW * 200_000)
    with pytest.raises(UnreadableInput, match=r"begins in line 2 .* is longer than 1,500,000 .*quote at line 2, column 19"):
        series(tmp_path).append_file(tmp_path / "x.csv", format=gl.Csv(max_line_size=1_500_000))


@pytest.mark.parametrize("size", [0, -1, True, 2.5, "1", (1 << 30) + 1])
def test_t2_18_a_limit_is_a_number_of_bytes(size: object) -> None:
    for kind in (gl.Csv, gl.Json):
        with pytest.raises(InvalidOption) as caught:
            kind(max_line_size=size)  # type: ignore[arg-type]  # wrong on purpose
        assert caught.value.option == "max_line_size"


def test_t2_19_a_header_of_more_than_a_block_is_read(tmp_path: Path) -> None:
    names = [f"sensor_{number:04}_{'x' * 700}" for number in range(2_000)]
    header = ",".join(["ts", *names])
    assert len(header) > 1 << 20
    (tmp_path / "x.csv").write_text(header + "\n2026-01-05T00:00Z," + ",".join(["1"] * len(names)) + "\n")
    found = gl.create(tmp_path / "t", index="ts", bucket="1h")
    assert found.append_file(tmp_path / "x.csv").rows == 1
    assert found.schema is not None
    assert found.schema.names == ["ts", *names]


# ---- wide files

_TEXTS = st.one_of(
    st.none(),
    st.sampled_from(
        [
            "",
            "1",
            "-1",
            "007",
            "1.5",
            "1,5",
            "true",
            "x",
            "2026-01-05",
            "2026-02-30",
            "2026-01-05T00:00Z",
            "nan",
            "1e999",
            "NA",
            "2026-01-05T00:00",
            "2026-01-05T00:00:00.123456789",
            "99999999999999999999",
            "18446744073709551615",
        ]
    ),
)


@given(
    columns=st.integers(1, 4).flatmap(
        lambda rows: st.lists(st.lists(_TEXTS, min_size=rows, max_size=rows), min_size=1, max_size=6)
    ),
    more=st.booleans(),
    point=st.sampled_from([".", ","]),
)
def test_t2_19_columns_looked_at_together_are_what_each_is_by_itself(
    columns: list[list[str | None]], more: bool, point: str
) -> None:
    texts = [pa.array(column, pa.string()) for column in columns]
    nulls = ("NA",)
    alone = [survey(without(one, nulls), None, point) for one in texts]
    before = alone if more else [None] * len(texts)
    again = list(reversed(texts)) if more else texts
    wanted = [survey(without(one, nulls), known, point) for one, known in zip(again, before, strict=True)]
    assert survey_columns(again, before, nulls, point) == wanted


def test_t2_19_a_value_of_a_wide_file_that_does_not_fit_names_its_column_and_row(tmp_path: Path) -> None:
    names = [f"c{number}" for number in range(300)]
    header, good = "ts," + ",".join(names) + "\n", ",".join(["1"] * 300)
    (tmp_path / "x.csv").write_text(header + f"2026-01-05T00:00Z,{good}\n2026-01-05T01:00Z,{good}\n")
    table = series(tmp_path)
    table.append_file(tmp_path / "x.csv")
    bad = ",".join(["1"] * 150 + ["x"] + ["1"] * 149)
    (tmp_path / "x.csv").write_text(header + f"2026-01-06T00:00Z,{good}\n2026-01-06T01:00Z,{bad}\n")
    with pytest.raises(GaplessError) as caught:
        table.append_file(tmp_path / "x.csv")
    assert (caught.value.facts["column"], caught.value.facts["row"], caught.value.facts["value"]) == ("c150", 1, "x")


@pytest.mark.parametrize("block", [40, 100, 1 << 20])
def test_wide_and_tall_blocks_give_the_same_table(tmp_path: Path, block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_file, "BLOCK_BYTES", block)
    kinds = ["1", "1.5", "x", "true", "2026-01-05", "", "2026-01-05T00:00Z"]
    header = "ts," + ",".join(f"c{number}" for number in range(len(kinds) * 3)) + "\n"
    lines = [f"2026-01-05T{hour:02}:00Z," + ",".join(kinds * 3) + "\n" for hour in range(20)]
    (tmp_path / "x.csv").write_text(header + "".join(lines))
    table = series(tmp_path)
    table.append_file(tmp_path / "x.csv")
    assert table.schema is not None
    types = [pa.int64(), pa.float64(), pa.string(), pa.bool_(), pa.date32(), pa.null(), pa.timestamp("us", "UTC")]
    found = dict(zip(table.schema.names, table.schema.types, strict=True))
    for number in range(len(kinds) * 3):
        assert found.get(f"c{number}", pa.null()) == types[number % len(kinds)]
    rows = table.scan().to_arrow()
    assert rows["c0"].to_pylist() == rows["c7"].to_pylist() == [1] * 20
    assert rows["c2"].to_pylist() == ["x"] * 20
