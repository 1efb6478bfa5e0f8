"""What the texts of options and of the file of expected identities mean."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pyarrow as pa
import pytest

from gapless.cli.coverage import read_expected
from gapless.cli.options import choose_format, parse_entity, parse_mapping, parse_pairs, split_names
from gapless.errors import InvalidOption, InvalidPath, UnknownColumn
from gapless.model.input_formats import Csv, Json
from gapless.tables.timeseries.table import TimeSeriesTable

SCHEMA = pa.schema(
    [("ts", pa.timestamp("us")), ("site", pa.string()), ("sensor", pa.int16()), ("day", pa.date32()), ("on", pa.bool_())]
)


def _table(tmp_path: Path, *entity: str) -> TimeSeriesTable:
    return TimeSeriesTable.create(tmp_path / "t", index="ts", bucket="1h", entity=entity, schema=SCHEMA)


def _expect(tmp_path: Path, text: str | bytes, *entity: str) -> object:
    file = tmp_path / "expected.txt"
    file.write_bytes(text.encode() if isinstance(text, str) else text)
    return read_expected(_table(tmp_path, *entity), str(file))


def test_pairs_keep_all_after_the_first_equals_sign() -> None:
    assert parse_pairs("entity", ["a=b=c", "a="]) == [("a", "b=c"), ("a", "")]


@pytest.mark.parametrize("text", ["a", "=b", ""])
def test_a_pair_without_a_name_or_a_sign_is_refused(text: str) -> None:
    with pytest.raises(InvalidOption, match="is no NAME=VALUE"):
        parse_pairs("property", [text])


def test_a_name_given_twice_is_refused() -> None:
    with pytest.raises(InvalidOption, match="codec is given twice"):
        parse_mapping("property", ["codec=zstd", "codec=none"])


def test_entity_values_have_their_columns_types(tmp_path: Path) -> None:
    table = _table(tmp_path, "site", "sensor", "day", "on")
    texts = ["site=a,b", "sensor=7", "sensor=-8", "day=2013-01-31", "on=True"]
    assert parse_entity(table, texts) == {"site": ["a,b"], "sensor": [7, -8], "day": [date(2013, 1, 31)], "on": [True]}


@pytest.mark.parametrize("text", ["sensor=x", "sensor=1.5", "day=31.1.2013", "on=1"])
def test_an_entity_value_of_another_type_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(InvalidOption, match="is no value of the entity column"):
        parse_entity(_table(tmp_path, "sensor", "day", "on"), [text])


def test_an_entity_column_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnknownColumn, match=r"--entity sensr names no entity column.*Did you mean 'sensor'"):
        parse_entity(_table(tmp_path, "sensor"), ["sensr=1"])


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("7\n8\n", [(7,), (8,)]),
        ("sensor\r\n7\r\n\r\n8", [(7,), (8,)]),
        ("\ufeff7\n", [(7,)]),
    ],
)
def test_one_entity_column_needs_no_header(tmp_path: Path, text: str, found: object) -> None:
    assert _expect(tmp_path, text, "sensor") == found


def test_several_entity_columns_are_named_in_any_order(tmp_path: Path) -> None:
    assert _expect(tmp_path, 'sensor,site\n7,"a,b"\n8,c\n', "site", "sensor") == [("a,b", 7), ("c", 8)]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "it names no identity"),
        ("\n \n", "it names no identity"),
        ("site,sensor\n", "nothing below its header"),
        ("a,7\n", "line 1 is 'a,7'"),
        ("site,sensor\na\n", "line 2 has 1 values, not 2"),
        ("site,sensor\na,7\nb,x\n", "line 3: 'x' is no value of the entity column 'sensor'"),
        ("site,sensor,more\na,7,1\n", "line 1 is 'site,sensor,more'"),
        (b"site,sensor\n\xff,7\n", "it is no CSV in UTF-8"),
        ('site,sensor\n"a,7\n', "it is no CSV in UTF-8"),
    ],
)
def test_a_malformed_file_of_identities_is_refused_by_line(tmp_path: Path, text: str | bytes, said: str) -> None:
    with pytest.raises(InvalidOption) as refused:
        _expect(tmp_path, text, "site", "sensor")
    assert said in refused.value.what
    assert refused.value.fix


def test_expecting_identities_of_a_table_without_entities_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidOption, match="no entity columns"):
        _expect(tmp_path, "a\n")


def test_a_file_of_identities_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InvalidPath, match="No such file"):
        read_expected(_table(tmp_path, "site"), str(tmp_path / "none.txt"))
    assert read_expected(_table(tmp_path / "other", "site"), None) is None


def test_format_options_take_the_format_of_the_files(tmp_path: Path) -> None:
    for name in ("a.csv", "b.tsv", "c.jsonl"):
        (tmp_path / name).touch()
    csv, tsv, jsonl = (str(tmp_path / name) for name in ("a.csv", "b.tsv", "c.jsonl"))
    assert choose_format(None, {}, [csv]) is None
    assert choose_format(None, {"nulls": ["NA"]}, [csv]) == Csv(nulls=["NA"])
    assert choose_format(None, {"nulls": ["NA"]}, [tsv]) == Csv(nulls=["NA"], delimiter="\t")
    assert choose_format("csv", {"delimiter": "\\t"}, [jsonl]) == Csv(delimiter="\t")
    assert choose_format(None, {"timestamp_unit": "ms"}, [jsonl]) == Json(timestamp_unit="ms")
    with pytest.raises(InvalidOption, match="--null means nothing for Json files"):
        choose_format(None, {"nulls": ["NA"]}, [jsonl])
    with pytest.raises(InvalidOption, match=r"several formats. Their names end in .csv, .tsv"):
        choose_format(None, {"nulls": ["NA"]}, [csv, tsv])


def test_columns_are_named_between_commas() -> None:
    assert split_names("a,b", ["a", "b"]) == ["a", "b"]
    assert split_names("a,b", ["a,b"]) == ["a,b"]
