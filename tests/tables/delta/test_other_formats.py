"""Tables that other writers keep in another format too (UniForm)."""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import pyarrow as pa
import pytest

import gapless as gl
from gapless.errors import LogWarning, NotSupported


def test_a_table_that_others_keep_in_another_format_too_is_opened_with_a_warning(tmp_path: Path) -> None:
    """gapless would not describe its commits to Iceberg's or Hudi's readers; the way out is to take the property away."""
    gl.delta.create(tmp_path / "t", pa.schema([("x", pa.int64())])).append({"x": [1]})
    first = tmp_path / "t" / "_delta_log" / f"{0:020}.json"
    lines = [json.loads(line) for line in first.read_text().splitlines()]
    for line in lines:
        if "metaData" in line:
            line["metaData"]["configuration"]["delta.universalFormat.enabledFormats"] = "hudi"
    first.write_text("".join(json.dumps(line) + "\n" for line in lines))
    with pytest.warns(LogWarning, match="kept as hudi too"):
        table = gl.delta.open(tmp_path / "t")
    assert table.count() == 1
    with pytest.raises(NotSupported, match="cannot be set"):
        table.alter.set_properties({"delta.universalFormat.enabledFormats": "iceberg"})
    table.alter.unset_properties(["delta.universalFormat.enabledFormats"])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        gl.delta.open(tmp_path / "t")
