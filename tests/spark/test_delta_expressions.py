"""What tests/support/spark_answers.json says that Spark answers, asked of Spark."""

from __future__ import annotations

import re
from typing import Any

import pyarrow as pa
import pytest

from gapless.tables.delta.expressions.evaluate import evaluate
from gapless.tables.delta.expressions.spark_sql import _CASED
from support.spark_rows import ANSWERS, told

# What PySpark's own client leaves open.
pytestmark = pytest.mark.filterwarnings(
    "ignore:.*unclosed.*:ResourceWarning", "ignore:.*socket:pytest.PytestUnraisableExceptionWarning"
)
_ROWS = """
select * from values
 (1, 13L, 1.7D, cast(1.15 as decimal(10,2)), '2024-05-01', timestamp'2024-05-01 10:20:30.123456Z', date'2024-05-01', true,
  named_struct('x', 1L, 'y', 'a'), array(1L, 2L), map('k', 1L), cast(1.5 as float), 5),
 (2, -7L, -2.5D, cast(-2.25 as decimal(10,2)), ' Ab%_', timestamp'1999-12-31 23:59:59Z', date'1999-12-31', false,
  named_struct('x', cast(null as bigint), 'y', ''), array(), map(), cast(-0.5 as float), -5),
 (3, null, null, null, null, null, null, null, null, null, null, null, null)
 as t(n, v, f, d, s, ts, day, flag, st, l, m, g, i)
"""


def test_sparks_answers_are_sparks(spark: Any) -> None:
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    try:
        spark.sql(_ROWS).createOrReplaceTempView("rows_for_expressions")
        # Times as microseconds, since Python's come in the zone of its process.
        selected = ", ".join(f"({_shown(one)}) as o{number}" for number, one in enumerate(ANSWERS))
        answer = spark.sql(f"select n, {selected} from rows_for_expressions order by n").collect()
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)
    for number, (expression, (type_, expected)) in enumerate(ANSWERS.items()):
        found = [row[f"o{number}"] for row in answer]
        told_as = found if type_ == "timestamp" else [told(one.asDict() if hasattr(one, "asDict") else one) for one in found]
        assert told_as == expected, expression


def test_every_letter_turns_into_sparks_or_is_refused(spark: Any) -> None:
    """Of all code points below U+10000 that are characters."""
    letter = "decode(unhex(lpad(hex(id), 4, '0')), 'utf-16be')"
    found = spark.sql(
        f"select {letter} as s, upper({letter}) as u, lower({letter}) as l from range(1, 65536) where id not between 55296 and 57343"
    ).collect()
    for name, place in (("upper", "u"), ("lower", "l")):
        doubtful = re.compile(_CASED[name.capitalize()][0])
        told = [row for row in found if not doubtful.search(row["s"])]
        assert len(told) > 63_300
        rows = pa.table({"s": [row["s"] for row in told]})
        made = evaluate(rows, {"o": f"{name}(s)"}, pa.schema([("o", pa.string())]), dialect="spark").column("o").to_pylist()
        assert [(row["s"], row[place], ours) for row, ours in zip(told, made, strict=True) if row[place] != ours] == []


def _shown(expression: str) -> str:
    if ANSWERS[expression][0] != "timestamp":
        return expression
    return f"regexp_replace(date_format({expression}, \"yyyy-MM-dd'T'HH:mm:ss.SSSSSS\"), '[.]000000$', '')"
