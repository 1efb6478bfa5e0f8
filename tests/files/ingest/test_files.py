"""Reading Parquet, CSV and JSON lines: what comes out is what stands there, or an error that says where it is not."""

from __future__ import annotations

import gzip
import itertools
import json
import pickle
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gapless.errors import GaplessError, InvalidOption, InvalidPath, InvalidValue, SchemaMismatch, UnreadableInput
from gapless.files.ingest import text_file as text_files
from gapless.files.ingest.batches import Batches, unified_schema
from gapless.files.ingest.files import expand_paths, open_file, open_files
from gapless.model.index import FixedWidth, IndexSpec, IntWidth
from gapless.model.input_formats import Csv, Json, Parquet, parse_format

INDEX = IndexSpec(column="ts", type="timestamp", bucket=FixedWidth(3600 * 10**9))
NUMBERED = IndexSpec(column="n", type="int64", bucket=IntWidth(10))
UTC_US = pa.timestamp("us", "UTC")
T0 = datetime(2013, 1, 1, 6, tzinfo=UTC)


def table(batches: Batches) -> pa.Table:
    found = pa.Table.from_batches(batches, schema=batches.schema)
    found.validate(full=True)
    return found


def csv(folder: Path, text: str | bytes, options: Csv | None = None, schema: pa.Schema | None = None) -> pa.Table:
    """A CSV file with this content, by a time index `ts` where its text names one, else by the integer index `n`."""
    path = folder / "x.csv"
    content = text if isinstance(text, bytes) else text.encode()
    path.write_bytes(content)
    return table(open_file(path, options, index=INDEX if b"ts" in content else NUMBERED, schema=schema))


def column(folder: Path, *texts: str, options: Csv | None = None) -> pa.ChunkedArray:
    """One column `v` read from these fields."""
    return csv(folder, "n,v\n" + "".join(f"{n},{text}\n" for n, text in enumerate(texts)), options)["v"]


@pytest.fixture
def tiny_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of 64 bytes, so that a short file has many."""
    monkeypatch.setattr(text_files, "BLOCK_BYTES", 64)
    monkeypatch.setattr("gapless.files.ingest.json_file.CHUNK_ROWS", 3)


# ---- options


@pytest.mark.parametrize(
    ("given", "option"),
    [
        ({"nulls": "NA"}, "nulls"),
        ({"nulls": [None]}, "nulls"),
        ({"delimiter": ";;"}, "delimiter"),
        ({"delimiter": ""}, "delimiter"),
        ({"delimiter": '"'}, "delimiter"),
        ({"decimal_point": ","}, "delimiter"),
        ({"quote": "\n"}, "quote"),
        ({"header": False}, "header"),
        ({"columns": ["a", "a"]}, "columns"),
        ({"columns": "ab"}, "columns"),
        ({"timestamp_unit": "m"}, "timestamp_unit"),
        ({"timestamp_unit": "s", "timestamp_format": "%Y%m%d"}, "timestamp_unit"),
        ({"timestamp_format": "iso"}, "timestamp_format"),
        ({"encoding": "utf-9"}, "encoding"),
        ({"skip_rows": -1}, "skip_rows"),
        ({"skip_rows": True}, "skip_rows"),
        ({"types": {"a": "integer"}}, "types"),
        ({"types": ["a"]}, "types"),
    ],
)
def test_csv_options_are_checked_at_birth(given: dict[str, object], option: str) -> None:
    with pytest.raises(InvalidOption) as caught:
        Csv(**given)  # type: ignore[arg-type] # wrong on purpose
    assert caught.value.option == option
    assert caught.value.why
    assert caught.value.fix


def test_csv_options_are_a_value() -> None:
    options = Csv(nulls=["NA"], types={"id": "string"})
    assert options.nulls == ("NA",)
    assert options.declared("id") == pa.string()
    assert pickle.loads(pickle.dumps(options)) == options


def test_parse_format_knows_names_and_refuses_others() -> None:
    assert parse_format("CSV") == Csv()
    assert parse_format("tsv") == Csv(delimiter="\t")
    assert parse_format("jsonl") == Json()
    assert parse_format("parquet") == Parquet()
    assert parse_format(None) is None
    with pytest.raises(InvalidOption, match="Did you mean 'parquet'"):
        parse_format("parket")


# ---- CSV: types


@pytest.mark.parametrize(
    ("texts", "type_", "values"),
    [
        (["1", "-2", ""], pa.int64(), [1, -2, None]),
        (["1", "2.5"], pa.float64(), [1.0, 2.5]),
        (["1", " 2 "], pa.int64(), [1, 2]),
        (["-0", "1"], pa.float64(), [-0.0, 1.0]),
        (["NaN", "1", "-inf"], pa.float64(), None),
        (["true", "False"], pa.bool_(), [True, False]),
        (["9223372036854775807"], pa.int64(), [2**63 - 1]),
        (["18446744073709551615"], pa.uint64(), [2**64 - 1]),
        (["18446744073709551616"], pa.string(), ["18446744073709551616"]),
        (["18446744073709551615", "-1"], pa.string(), ["18446744073709551615", "-1"]),
        (["9007199254740993", "1.5"], pa.string(), ["9007199254740993", "1.5"]),
        (["1e999"], pa.string(), ["1e999"]),
        (["0x1F"], pa.string(), ["0x1F"]),
        (["+4912345"], pa.string(), ["+4912345"]),
        (["1", "x"], pa.string(), ["1", "x"]),
        (["2013-01-01", "2013-12-31"], pa.date32(), None),
        (["2013-02-30"], pa.string(), ["2013-02-30"]),
        (["2013-01-01", "2013-01-01 06:00"], pa.timestamp("us"), [datetime(2013, 1, 1), datetime(2013, 1, 1, 6)]),
        (["2013-01-01T06:00:00Z", "2013-01-01T07:00:00.5+01:00"], UTC_US, [T0, T0.replace(microsecond=500_000)]),
        (["2013-01-01T06:00:00Z", "2013-01-01T06:00:00"], pa.string(), None),
        (["2013-01-01T06:00:00.123456789Z"], pa.timestamp("ns", "UTC"), None),
        (["", ""], pa.null(), [None, None]),
        (["", "x"], pa.string(), [None, "x"]),
        (['""', "x"], pa.string(), ["", "x"]),
        (['""', "1"], pa.int64(), [None, 1]),
    ],
)
def test_csv_types_follow_from_all_values(
    tmp_path: Path, texts: list[str], type_: pa.DataType, values: list[object] | None
) -> None:
    found = column(tmp_path, *texts)
    assert found.type == type_
    if values is not None:
        assert list(map(str, found.to_pylist())) == list(map(str, values))  # as text, which tells -0.0 from 0.0


def test_path_08_no_leading_zero_is_lost_on_import(tmp_path: Path) -> None:
    assert column(tmp_path, "6", "10", "007").to_pylist() == ["6", "10", "007"]
    assert column(tmp_path, "00", "06").to_pylist() == ["00", "06"]
    assert column(tmp_path, "007.5").to_pylist() == ["007.5"]
    assert column(tmp_path, "0", "10").to_pylist() == [0, 10]


@pytest.mark.usefixtures("tiny_blocks")
def test_path_08_a_leading_zero_in_the_last_block_counts(tmp_path: Path) -> None:
    found = column(tmp_path, *map(str, range(100)), "007")
    assert found.type == pa.string()
    assert found.to_pylist()[-2:] == ["99", "007"]


def test_path_08_types_are_settled_over_all_files(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("n,id,p\n1,10,1\n")
    (tmp_path / "b.csv").write_text("p,n,id\n2.5,1,007\n")
    first, second = open_files(expand_paths(tmp_path), index=NUMBERED)
    assert table(first).to_pylist() == [{"n": 1, "id": "10", "p": 1.0}]
    assert table(second).to_pylist() == [{"p": 2.5, "n": 1, "id": "007"}]
    assert unified_schema([first, second]) == pa.schema([("n", pa.int64()), ("id", pa.string()), ("p", pa.float64())])


@pytest.mark.usefixtures("tiny_blocks")
def test_type_08_csv_types_are_not_frozen_by_the_first_block(tmp_path: Path) -> None:
    text = "ts,v,w\n" + "2013-01-01T06:00:00Z,,1\n" * 50 + "2013-01-01T06:00:00Z,N,1.5\n"
    found = csv(tmp_path, text)
    assert found.schema == pa.schema([("ts", UTC_US), ("v", pa.string()), ("w", pa.float64())])
    assert found.num_rows == 51
    assert found["v"].null_count == 50
    assert found["w"].to_pylist() == [1.0] * 50 + [1.5]


def test_type_07_csv_column_without_values_takes_the_tables_type(tmp_path: Path) -> None:
    text = "ts,v\n2013-01-01T06:00:00Z,\n"
    assert csv(tmp_path, text).schema.field("v").type == pa.null()
    known = pa.schema([("ts", UTC_US), ("v", pa.int32())])
    assert csv(tmp_path, text, schema=known).schema.field("v").type == pa.int32()


def test_csv_nulls_that_are_listed_hold_in_every_column(tmp_path: Path) -> None:
    found = csv(tmp_path, 'n,a,b\n1,NA,NA\n2,3,x\n3,,\n4,4,"NA"\n', Csv(nulls=["NA"]))
    assert found["a"].to_pylist() == [None, 3, None, 4]
    assert found["b"].to_pylist() == [None, "x", "", "NA"]


def test_csv_reads_the_tables_types(tmp_path: Path) -> None:
    known = pa.schema(
        [
            ("ts", pa.timestamp("s", "UTC")),
            ("i", pa.int8()),
            ("f", pa.float32()),
            ("d", pa.decimal128(10, 2)),
            ("day", pa.date32()),
            ("t", pa.time64("us")),
            ("s", pa.dictionary(pa.int32(), pa.string())),
            ("b", pa.bool_()),
            ("u", pa.timestamp("ms")),
            ("gap", pa.duration("s")),
        ]
    )
    text = "ts,i,f,d,day,t,s,b,u,gap\n2013-01-01T06:00:00.000Z,+007,1,1.50,2013-01-01,12:30:00.5,007,1,2013-01-01,5\n"
    found = csv(tmp_path, text, schema=known)
    assert found.schema.types[:4] == [pa.timestamp("s", "UTC"), pa.int8(), pa.float32(), pa.decimal128(10, 2)]
    assert found.schema.types[6:] == [pa.string(), pa.bool_(), pa.timestamp("ms"), pa.string()]
    row = found.to_pylist()[0]
    assert (row["ts"], row["i"], row["d"], row["s"], row["b"]) == (T0, 7, Decimal("1.50"), "007", True)
    assert str(row["t"]) == "12:30:00.500000"


@pytest.mark.parametrize(
    ("type_", "good", "bad"),
    [
        (pa.int8(), "1", "128"),
        (pa.int64(), "1", "1.0"),
        (pa.float64(), "1", "1e999"),
        (pa.float64(), "1", "abc"),
        (pa.decimal128(4, 1), "1.5", "1.55"),
        (pa.date32(), "2013-01-01", "2013-02-30"),
        (pa.bool_(), "true", "maybe"),
        (pa.time32("s"), "12:00", "25:00"),
        (pa.timestamp("s"), "2013-01-01", "2013-01-01T00:00:00.5"),
        (pa.timestamp("us"), "2013-01-01", "soon"),
    ],
)
def test_csv_value_that_does_not_fit_names_its_row(tmp_path: Path, type_: pa.DataType, good: str, bad: str) -> None:
    known = pa.schema([("n", pa.int64()), ("v", type_)])
    text = f"n,v\n1,{good}\n2,\n3,{good}\n4,{bad}\n5,{good}\n"
    with pytest.raises(InvalidValue) as caught:
        csv(tmp_path, text, schema=known)
    assert (caught.value.column, caught.value.row, caught.value.value) == ("v", 3, bad)
    assert "x.csv" in str(caught.value)


@pytest.mark.usefixtures("tiny_blocks")
def test_csv_rows_are_counted_over_all_blocks(tmp_path: Path) -> None:
    known = pa.schema([("n", pa.int64()), ("v", pa.int64())])
    text = "n,v\n" + "".join(f"{n},1\n" for n in range(100)) + "100,x\n"
    with pytest.raises(InvalidValue) as caught:
        csv(tmp_path, text, schema=known)
    assert caught.value.row == 100


def test_csv_declared_types_win(tmp_path: Path) -> None:
    options = Csv(types={"v": pa.decimal128(30, 20)})
    assert column(tmp_path, "0.12345678901234567891", options=options).to_pylist() == [Decimal("0.12345678901234567891")]
    assert column(tmp_path, "1", options=Csv(types={"v": "string"})).to_pylist() == ["1"]


def test_csv_decimal_comma(tmp_path: Path) -> None:
    text = "n;v;w\n1;1,5;1.500\n2;2;x\n"
    (tmp_path / "x.csv").write_text(text)
    found = table(open_file(tmp_path / "x.csv", Csv(delimiter=";", decimal_point=","), index=NUMBERED))
    assert found["v"].to_pylist() == [1.5, 2.0]
    (tmp_path / "x.csv").write_text("n;v\n1;1,5\n2;1.500\n")
    found = table(open_file(tmp_path / "x.csv", Csv(delimiter=";", decimal_point=","), index=NUMBERED))
    assert found["v"].to_pylist() == ["1,5", "1.500"]  # not one and a half: a point means thousands there


# ---- CSV: times

SECONDS, MILLIS, NANOS = 1440089182, 1463412366717, 1682049219172428000
UNIT_OF = {SECONDS: "s", MILLIS: "ms", NANOS: "ns"}


@pytest.mark.parametrize(("number", "unit"), list(itertools.product(UNIT_OF, ("s", "ms", "ns"))))
@pytest.mark.parametrize("known", [None, pa.schema([("ts", UTC_US)])])
def test_cov_16_csv_numbers_in_the_wrong_unit_raise(tmp_path: Path, number: int, unit: str, known: pa.Schema | None) -> None:
    text, options = f"ts\n{number}\n", Csv(timestamp_unit=unit)  # type: ignore[arg-type] # a str, for pytest
    if UNIT_OF[number] != unit:
        with pytest.raises(InvalidValue) as caught:
            csv(tmp_path, text, options, known)
        assert (caught.value.column, caught.value.row, caught.value.value) == ("ts", 0, str(number))
    elif known is not None and unit == "ns":
        assert csv(tmp_path, text, options, known)["ts"].cast(pa.int64()).to_pylist() == [number // 1000]
    else:
        found = csv(tmp_path, text, options, known)["ts"]
        assert found.type == (UTC_US if known else pa.timestamp(unit, "UTC"))
        assert found[0].as_py().year in (2015, 2016, 2023)


@pytest.mark.parametrize("known", [None, pa.schema([("ts", UTC_US)])])
def test_cov_16_csv_numbers_without_a_unit_raise(tmp_path: Path, known: pa.Schema | None) -> None:
    with pytest.raises(InvalidOption, match="unit was not declared") as caught:
        csv(tmp_path, f"ts\n{SECONDS}\n", schema=known)
    assert caught.value.option == "timestamp_unit"


def test_cov_16_a_declared_type_takes_any_year(tmp_path: Path) -> None:
    found = csv(tmp_path, "ts\n0\n60\n", Csv(types={"ts": pa.timestamp("s", "UTC")}))
    assert found["ts"].to_pylist() == [datetime(1970, 1, 1, tzinfo=UTC), datetime(1970, 1, 1, 0, 1, tzinfo=UTC)]


def test_cov_16_an_instant_that_the_index_type_cannot_hold_raises(tmp_path: Path) -> None:
    with pytest.raises(InvalidValue, match=r"timestamp\[s, tz=UTC\] cannot hold it"):
        csv(tmp_path, f"ts\n{MILLIS}\n", Csv(timestamp_unit="ms"), pa.schema([("ts", pa.timestamp("s", "UTC"))]))


def test_csv_index_that_mixes_naive_and_aware_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidValue, match="rows before hold") as caught:
        csv(tmp_path, "ts\n2013-01-01T00:00:00Z\n2013-01-01T00:00:00\n")
    assert caught.value.row == 1


def test_csv_index_that_mixes_numbers_and_times_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidValue, match="whole number") as caught:
        csv(tmp_path, f"ts\n2013-01-01\n{SECONDS}\n")
    assert caught.value.row == 1


def test_csv_index_that_is_no_time_names_the_way_out(tmp_path: Path) -> None:
    with pytest.raises(InvalidValue, match="timestamp_format") as caught:
        csv(tmp_path, "ts\n2013-01-01\n01/02/2013\n")
    assert (caught.value.row, caught.value.value) == (1, "01/02/2013")


def test_csv_naive_times_stay_naive_for_an_aware_table(tmp_path: Path) -> None:
    found = csv(tmp_path, "ts\n2013-01-01T00:00:00\n", schema=pa.schema([("ts", UTC_US)]))
    assert found.schema.field("ts").type == pa.timestamp("us")


@pytest.mark.parametrize(
    ("format_", "text", "type_", "expected"),
    [
        ("%d/%m/%Y %H:%M", "01/02/2013 06:00", pa.timestamp("us"), datetime(2013, 2, 1, 6)),
        ("%Y%m%d", "20130201", pa.timestamp("us"), datetime(2013, 2, 1)),
        ("%Y-%m-%d %H:%M:%S.%f%z", "2013-01-01 07:00:00.25+0100", UTC_US, T0.replace(microsecond=250_000)),
    ],
)
def test_csv_timestamp_format(tmp_path: Path, format_: str, text: str, type_: pa.DataType, expected: datetime) -> None:
    found = csv(tmp_path, f"ts\n{text}\n{text}\n", Csv(timestamp_format=format_))
    assert found["ts"].type == type_
    assert found["ts"].to_pylist() == [expected] * 2
    with pytest.raises(InvalidValue, match="does not follow") as caught:
        csv(tmp_path, f"ts\n{text}\n31/02/2013\n", Csv(timestamp_format=format_))
    assert caught.value.row == 1


# ---- CSV: form


def test_csv_bom_crlf_quotes_and_blank_lines(tmp_path: Path) -> None:
    found = csv(tmp_path, b'\xef\xbb\xbfn,v\r\n1,"a, ""b""\r\nc"\r\n\r\n2,d\r\n')
    assert found.to_pylist() == [{"n": 1, "v": 'a, "b"\r\nc'}, {"n": 2, "v": "d"}]


def test_csv_header_options(tmp_path: Path) -> None:
    assert csv(tmp_path, "1,a\n2,b\n", Csv(header=False, columns=["n", "v"])).to_pylist() == [
        {"n": 1, "v": "a"},
        {"n": 2, "v": "b"},
    ]
    renamed = csv(tmp_path, "#junk\nn,v\n1,a\n", Csv(columns=["n", "w"], skip_rows=1))
    assert renamed.column_names == ["n", "w"]
    assert renamed.num_rows == 1
    assert csv(tmp_path, "n,v\n").num_rows == 0


@pytest.mark.parametrize("encoding", ["cp1252", "utf-16"])
def test_csv_encoding(tmp_path: Path, encoding: str) -> None:
    (tmp_path / "x.csv").write_bytes("n,v\n1,é\n".encode(encoding))
    assert table(open_file(tmp_path / "x.csv", Csv(encoding=encoding), index=NUMBERED))["v"].to_pylist() == ["é"]


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"n,v\n1,2\n3\n", "line 3 of .* has 1 field instead of 2.*Expected 2 columns, got 1"),
        (b"n,v\n1,2\n3,4,5\n", "line 3 of .* has 3 fields instead of 2.*Expected 2 columns, got 3"),
        (b'n,v\n\n1,"a\n\nb"\r\n3\n', "line 6 of .* has 1 field instead of 2"),
        (b"n,v\n1,2\n3,4,\n", r"line 3 of .* has 3 fields.*Csv\(columns=\[…, \"\"\]\)"),
        (b"n,v\n1,2\n3,\xff\n", r"not UTF-8 at line 3, column 3.*encoding"),
        (b"n,v\n1,\x22open\n2,b\n3,c\n", "never closed"),
        (b"n,n\n1,2\n", "several columns named 'n'"),
        (b"n;v\n1;2\n", r"delimiter=';'"),
        (b"x\n1\n", "skip_rows"),
    ],
)
def test_csv_damage_is_an_error_with_its_place(tmp_path: Path, content: bytes, says: str) -> None:
    path = tmp_path / "x.csv"
    path.write_bytes(content)
    with pytest.raises(UnreadableInput, match=says) as caught:
        table(open_file(path, index=NUMBERED))
    assert caught.value.source == str(path)
    assert caught.value.why
    assert caught.value.fix


def test_csv_quoted_lines_at_the_end_are_fine(tmp_path: Path) -> None:
    assert csv(tmp_path, 'n,v\n1,"a\nb"').to_pylist() == [{"n": 1, "v": "a\nb"}]


def test_compressed_files(tmp_path: Path) -> None:
    text = "n,v\n" + "1,2\n" * 1000
    path = tmp_path / "whole.csv.gz"
    path.write_bytes(gzip.compress(text[:2004].encode()) + gzip.compress(text[2004:].encode()))
    assert table(open_file(path, index=NUMBERED)).num_rows == 1000
    with pa.CompressedOutputStream(str(tmp_path / "x.csv.zst"), "zstd") as out:
        out.write(text.encode())
    assert table(open_file(tmp_path / "x.csv.zst", index=NUMBERED)).num_rows == 1000


@pytest.mark.parametrize(
    "damage", [lambda whole: whole[:-40], lambda _: b"n,v\n1,2\n", lambda whole: whole[:20] + b"xx" + whole[22:]]
)
@pytest.mark.parametrize("name", ["x.csv.gz", "x.jsonl.gz"])
def test_damaged_gzip_is_an_error(tmp_path: Path, damage: object, name: str) -> None:
    lines = b"n,v\n" + b"".join(b"%d,%d\n" % (n, n * n) for n in range(5000))
    if "json" in name:
        lines = b"".join(b'{"n":%d,"v":%d}\n' % (n, n * n) for n in range(5000))
    (tmp_path / name).write_bytes(damage(gzip.compress(lines)))  # type: ignore[operator] # a lambda, as parametrize gives it
    with pytest.raises(UnreadableInput) as caught:
        table(open_file(tmp_path / name, index=NUMBERED))
    assert "gz" in str(caught.value)


# ---- JSON lines


def lines(
    folder: Path, *rows: object, options: Json | None = None, schema: pa.Schema | None = None, index: IndexSpec = NUMBERED
) -> pa.Table:
    path = folder / "x.jsonl"
    path.write_text("".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows))
    return table(open_file(path, options, index=index, schema=schema))


@pytest.mark.usefixtures("tiny_blocks")
def test_type_08_json_types_are_not_frozen_by_the_first_lines(tmp_path: Path) -> None:
    rows: list[object] = [{"n": n, "v": None, "w": n, "l": [], "s": {}} for n in range(50)]
    rows += [{"n": 50, "v": "N", "w": 0.5, "l": [1], "s": {"a": 1}, "late": True}]
    found = lines(tmp_path, *rows)
    assert found.num_rows == 51
    assert found.schema.field("v").type == pa.string()
    assert found.schema.field("w").type == pa.float64()
    assert found.to_pylist()[-1] == {"n": 50, "v": "N", "w": 0.5, "l": [1], "s": {"a": 1}, "late": True}
    assert found["late"].null_count == 50
    assert found["w"].to_pylist()[:3] == [0.0, 1.0, 2.0]


def test_json_integers_are_exact(tmp_path: Path) -> None:
    assert lines(tmp_path, {"n": 2**63 - 1})["n"].to_pylist() == [2**63 - 1]
    assert lines(tmp_path, {"n": 1, "v": 2**64 - 1})["v"].to_pylist() == [2**64 - 1]
    with pytest.raises(InvalidValue, match="64 bits") as caught:
        lines(tmp_path, {"n": 1, "v": 1}, {"n": 2, "v": 2**64})
    assert (caught.value.row, caught.value.column) == (1, "v")


@pytest.mark.parametrize("chunk", [1, 100])
def test_json_integer_that_its_columns_doubles_cannot_hold(tmp_path: Path, chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gapless.files.ingest.json_file.CHUNK_ROWS", chunk)
    with pytest.raises(InvalidValue) as caught:
        lines(tmp_path, {"n": 1, "v": 0.5}, {"n": 2, "v": 2**53 + 1})
    assert (caught.value.row, caught.value.value) == (1, 2**53 + 1)


def test_json_times(tmp_path: Path) -> None:
    row = {"ts": "2013-01-01T06:00:00Z", "other": "2013-01-01T06:00:00Z"}
    found = lines(tmp_path, row, index=INDEX)
    assert found.schema == pa.schema([("ts", UTC_US), ("other", pa.string())])
    known = pa.schema([("ts", UTC_US), ("other", UTC_US)])
    assert lines(tmp_path, row, index=INDEX, schema=known).to_pylist() == [{"ts": T0, "other": T0}]
    with pytest.raises(InvalidOption, match="unit"):
        lines(tmp_path, {"ts": SECONDS}, index=INDEX)
    assert lines(tmp_path, {"ts": SECONDS}, index=INDEX, options=Json(timestamp_unit="s"))["ts"][0].as_py().year == 2015
    with pytest.raises(InvalidValue, match="another unit"):
        lines(tmp_path, {"ts": SECONDS}, index=INDEX, options=Json(timestamp_unit="ns"))
    with pytest.raises(InvalidValue, match="text or a number"):
        lines(tmp_path, {"ts": ["2013"]}, index=INDEX)


@pytest.mark.parametrize("bad", ['{"n": 2', "[1]", '{"n": 1, "n": 2}', "x"])
def test_json_damaged_line_is_named(tmp_path: Path, bad: str) -> None:
    with pytest.raises(UnreadableInput, match="line 3 of"):
        lines(tmp_path, {"n": 1}, "", bad, {"n": 3})


def test_json_values_of_two_types_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UnreadableInput, match="column 'v'"):
        lines(tmp_path, {"n": 1, "v": 1}, {"n": 2, "v": "a"})


# ---- Parquet


def test_type_02_int96_comes_as_microseconds(tmp_path: Path) -> None:
    old = [datetime(1000, 1, 1), datetime(2020, 1, 1, 0, 0, 0, 7), None, datetime(9999, 12, 31)]
    path = tmp_path / "x.parquet"
    pq.write_table(pa.table({"ts": pa.array(old, pa.timestamp("us"))}), path, use_deprecated_int96_timestamps=True)
    assert pq.ParquetFile(path).schema.column(0).physical_type == "INT96"
    found = table(open_file(path, index=INDEX))
    assert found["ts"].type == pa.timestamp("us")
    assert found["ts"].to_pylist() == old


def test_type_02_int96_with_nanoseconds_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    values = pa.array([1577836800000000000, 1577836800000000123], pa.timestamp("ns"))
    pq.write_table(pa.table({"ts": values}), path, use_deprecated_int96_timestamps=True)
    with pytest.raises(InvalidValue, match="INT96") as caught:
        table(open_file(path, index=INDEX))
    assert caught.value.row == 1


def test_parquet_is_read_batch_by_batch(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    pq.write_table(pa.table({"n": range(200_000)}), path, row_group_size=100_000)
    batches = open_file(path, index=NUMBERED)
    assert batches.rows_hint == 200_000
    assert batches.bytes_hint == path.stat().st_size
    assert max(batch.num_rows for batch in batches) <= 65_536
    assert table(batches)["n"].to_pylist() == list(range(200_000))


@pytest.mark.parametrize("content", [b"", b"PAR1", b"not parquet at all", None])
def test_what_is_no_parquet_is_unreadable(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "x.parquet"
    pq.write_table(pa.table({"n": range(1000)}), path)
    path.write_bytes(path.read_bytes()[:-100] if content is None else content)
    with pytest.raises(UnreadableInput) as caught:
        open_file(path, index=NUMBERED)
    assert caught.value.__cause__ is not None


def test_path_10_names_in_the_path_are_no_columns(tmp_path: Path) -> None:
    folder = tmp_path / "Year=2022" / "x=1"
    folder.mkdir(parents=True)
    pq.write_table(pa.table({"n": [1]}), folder / "a.parquet")
    (folder / "b.csv").write_text("n\n2\n")
    (folder / "c.jsonl").write_text('{"n": 3}\n')
    parts = open_files(expand_paths(folder), index=NUMBERED)
    assert [table(part).to_pylist() for part in parts] == [[{"n": 1}], [{"n": 2}], [{"n": 3}]]


# ---- paths


def test_directory_gives_its_data_files_in_order(tmp_path: Path) -> None:
    for name in ("b.csv", "a.CSV.gz", "c.parquet", "_SUCCESS.csv", ".hidden.csv", "notes.txt", "d.ndjson"):
        (tmp_path / name).touch()
    (tmp_path / "_tmp").mkdir()
    (tmp_path / "_tmp" / "x.csv").touch()
    assert [path.name for path in expand_paths(str(tmp_path))] == ["a.CSV.gz", "b.csv", "c.parquet", "d.ndjson"]


def test_directory_with_data_below_is_refused(tmp_path: Path) -> None:
    (tmp_path / "day=06").mkdir()
    (tmp_path / "day=06" / "x.csv").touch()
    (tmp_path / "y.csv").touch()
    with pytest.raises(InvalidPath, match=r"day=06.*glob"):
        expand_paths(tmp_path)
    assert len(expand_paths(f"{tmp_path}/**/*.csv")) == 2


def test_literal_name_comes_before_a_glob(tmp_path: Path) -> None:
    literal, other = tmp_path / "a[1].csv", tmp_path / "a1.csv"
    other.touch()
    assert expand_paths(literal) == [other]
    literal.touch()
    assert expand_paths(literal) == [literal]
    assert expand_paths(f"{tmp_path}/a*.csv") == [other, literal]


@pytest.mark.parametrize("path", ["", "s3://b/x.csv", "nowhere.csv", "nowhere/*.csv"])
def test_path_to_nothing_is_an_error(tmp_path: Path, path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InvalidPath) as caught:
        expand_paths(path)
    assert caught.value.fix


def test_glob_that_matches_a_directory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.parquet").mkdir()
    with pytest.raises(InvalidPath, match="matches the directory"):
        expand_paths(f"{tmp_path}/*.parquet")
    with pytest.raises(InvalidPath, match="holds no data file"):
        expand_paths(tmp_path / "x.parquet")


def test_format_goes_by_the_name_then_by_the_first_bytes(tmp_path: Path) -> None:
    pq.write_table(pa.table({"n": [1]}), tmp_path / "part-0")
    assert table(open_file(tmp_path / "part-0", index=NUMBERED)).num_rows == 1
    (tmp_path / "x.dat").write_text("n\n1\n")
    assert table(open_file(tmp_path / "x.dat", "csv", index=NUMBERED)).num_rows == 1
    with pytest.raises(InvalidOption, match="format of"):
        open_file(tmp_path / "x.dat", index=NUMBERED)


def test_files_without_a_common_type_name_each_other(tmp_path: Path) -> None:
    pq.write_table(pa.table({"n": [1], "v": ["a"]}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"n": [1], "v": [1]}), tmp_path / "b.parquet")
    with pytest.raises(SchemaMismatch, match=r"b\.parquet.*a\.parquet"):
        unified_schema(open_files(expand_paths(tmp_path), index=NUMBERED))


def test_every_refusal_is_ours(tmp_path: Path) -> None:
    for name in ("gone.csv", "gone.jsonl", "gone.parquet", "gone"):
        with pytest.raises(GaplessError):
            open_file(tmp_path / name, index=NUMBERED)


def test_weather_of_new_york(tmp_path: Path) -> None:
    """The shape of the demo's file: NA in numbers, ISO instants."""
    text = "origin,wind_dir,temp,ts\nEWR,270,39.02,2013-01-01T06:00:00Z\nEWR,NA,39,2013-01-01T07:00:00Z\nJFK,250,NA,2013-01-01T08:00:00Z\n"
    found = csv(tmp_path, text, Csv(nulls=["NA"]))
    assert found.schema == pa.schema(
        [("origin", pa.string()), ("wind_dir", pa.int64()), ("temp", pa.float64()), ("ts", UTC_US)]
    )
    assert found["wind_dir"].to_pylist() == [270, None, 250]
