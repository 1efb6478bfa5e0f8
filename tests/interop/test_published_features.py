"""What the page on published features says that a format keeps, readers of the format find."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import gapless as gl
from gapless.formats.delta.publishing import FORMATS
from gapless.model.publishing import PUBLISHED_FORMATS
from gapless.testing import published_delta_features
from gapless.testing.published_features import FEATURES, Feature, survives
from interop.delta.engines import HUDI, Ask, counted

READERS: dict[str, tuple[str, str, str]] = {
    "delta": ("spark", "read", ""),
    "iceberg": ("spark", "read_iceberg", "_iceberg"),
    "hudi": (HUDI, "read", "data"),
}
"""The engine that reads each format, what it is asked, and where the table lies that it is shown."""


@pytest.mark.parametrize("format_", PUBLISHED_FORMATS)
@pytest.mark.parametrize("feature", FEATURES, ids=lambda feature: feature.name)
def test_what_is_told_to_survive_is_found_by_a_reader(engine: Ask, tmp_path: Path, feature: Feature, format_: Any) -> None:
    found = survives(feature, format_, tmp_path / "t")
    if isinstance(found, gl.GaplessError):
        assert found.fix
        return
    name, what, below = READERS[format_]
    theirs: pa.Table = engine(name).do(what, path=str(tmp_path / "t" / below))
    ours = found.scan().to_arrow()
    assert set(theirs.column_names) == set(ours.column_names)
    assert counted(theirs) == counted(ours)


@pytest.mark.parametrize("format_", FORMATS)
@pytest.mark.parametrize("feature", published_delta_features.FEATURES, ids=lambda feature: f"{feature.group}: {feature.name}")
def test_what_survives_of_a_delta_table_is_found_by_a_reader(
    engine: Ask, tmp_path: Path, feature: Feature, format_: Any
) -> None:
    found = published_delta_features.survives(feature, format_, tmp_path / "t")
    if isinstance(found, gl.GaplessError):
        assert found.fix
        return
    name, what, _ = READERS[format_]
    theirs: pa.Table = engine(name).do(what, path=str(tmp_path / "t" / f"_{format_}"))
    assert counted(theirs) == counted(found.scan().to_arrow())
