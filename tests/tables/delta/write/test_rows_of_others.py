"""Rows changed in tables that delta-spark and deltalake wrote, one for each feature."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow as pa
import pytest

from gapless.errors import UnsupportedTable
from gapless.tables.delta.table import DeltaTable
from support.delta_rows import counted_table
from support.delta_tables import rows_of

FIXTURES = Path(__file__).resolve().parents[3] / "fixtures" / "delta"
NAMES = sorted(path.parent.name for path in FIXTURES.glob("*/expected.json"))
REFUSED = {"spark_row_tracking"}
"""Writers of these must do what this release does not."""


@pytest.mark.parametrize("name", NAMES)
def test_one_row_is_updated_and_another_deleted(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    shutil.copytree(FIXTURES / name / "table", path)
    table = DeltaTable.open(path)
    before = table.scan().to_arrow()
    column = next(field.name for field in before.schema if pa.types.is_integer(field.type))
    values = before.column(column).to_pylist()
    known = [value for value in values if value is not None]
    first, last = known[0], known[-1]
    gone = f'"{column}" = {last}'
    if name in REFUSED:
        with pytest.raises(UnsupportedTable):
            table.delete(gone)
        return
    free = next(number for number in range(1, 100) if number not in values)
    merge = table.merge({column: [free, first]}, f't."{column}" = s."{column}"')
    assert merge.when_matched_update({column: free}).execute().updated_rows == values.count(first)
    assert table.delete(gone).removed_rows == (0 if first == last else values.count(last))
    assert table.dedup().removed_rows == 0
    at, field = before.schema.get_field_index(column), before.schema.field(column)
    after = before.set_column(at, field, pa.array([free if one == first else one for one in values], field.type))
    keep = pa.array([one == first or one != last for one in values])
    generated = [
        field.name for field in table._snapshot.state.metadata.schema if "delta.generationExpression" in field.metadata
    ]
    kept = after.filter(keep).drop_columns(generated)
    assert counted_table(table.scan(columns=kept.column_names).to_arrow()) == counted_table(kept)
    assert rows_of(DeltaTable.open(path)) == rows_of(table)
