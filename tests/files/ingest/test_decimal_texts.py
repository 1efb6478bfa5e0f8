"""Texts of decimals: each that the type holds is read, whatever its length, and no other becomes another number."""

from __future__ import annotations

import json
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gapless.errors import InvalidValue
from gapless.files.ingest.cells.texts import Cells, parse
from gapless.files.ingest.files import open_file
from gapless.model.input_formats import Csv, Json

TYPES = [pa.decimal128(9, 2), pa.decimal128(38, 0), pa.decimal128(38, 10), pa.decimal128(38, 38), pa.decimal256(76, 20)]
DIGITS = st.text("0123456789", min_size=1, max_size=90)
TEXTS = st.builds(
    lambda sign, whole, rest, power: sign + whole + rest + power,
    st.sampled_from(["", "-", "+"]),
    DIGITS,
    st.just("") | DIGITS.map(lambda digits: "." + digits),
    st.just("") | st.integers(-80, 80).map("e{}".format),
)


@pytest.mark.parametrize("type_", TYPES, ids=str)
@given(text=TEXTS)
@example(text="340282366920938463463374607431768211457")
@example(text="1.2611294676837539e+39")
@example(text="12345678901234567890123456789012345678")
@example(text="1." + "5" + "0" * 60)
@example(text="0e50")
def test_a_text_is_read_as_the_decimal_it_says_or_refused(type_: pa.DataType, text: str) -> None:
    scaled = Fraction(text) * 10**type_.scale
    fits = scaled.denominator == 1 and abs(scaled) < 10**type_.precision
    cells = Cells(texts=pa.array(["1" if type_.scale < 38 else "0", text, None]), column="a", source="s", row=7)
    if not fits:
        with pytest.raises(InvalidValue, match="row 8"):
            parse(cells, type_)
    else:
        found = parse(cells, type_)
        assert found.type == type_
        assert Fraction(found[1].as_py()) == Fraction(text)


def test_files_of_texts_and_numbers_do_not_wrap_a_decimal(tmp_path: Path) -> None:
    schema = pa.schema([("a", pa.decimal128(9, 2))])
    long = "340282366920938463463374607431768211457"
    (tmp_path / "a.csv").write_text(f"a\n1.5\n{long}\n")
    (tmp_path / "a.jsonl").write_text(f'{{"a": 1.5}}\n{{"a": {long}}}\n')
    for name, how in (("a.csv", Csv()), ("a.jsonl", Json())):
        with pytest.raises(InvalidValue, match="row 1") as refused:
            list(open_file(tmp_path / name, how, index=None, schema=schema))
        assert str(refused.value.facts["value"]) == long
    (tmp_path / "a.jsonl").write_text("".join(json.dumps({"a": value}) + "\n" for value in (1e2, "2.50", 3)))
    (batch,) = open_file(tmp_path / "a.jsonl", index=None, schema=schema)
    assert batch.column(0).to_pylist() == [Decimal("100.00"), Decimal("2.50"), Decimal("3.00")]
