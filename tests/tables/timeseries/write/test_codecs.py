"""A table's codec, from its property to its files, which are whole or not there at all."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import gapless as gl
from gapless.errors import InvalidOption, StoreError
from gapless.files.write.segment_encoder import CODEC_KEY
from gapless.model.properties import CODECS, Codec

ROWS = 600_000


def large() -> pa.Table:
    """Ten MB in arrival order, so that columns are encoded side by side."""
    dice = np.random.default_rng(2)
    return pa.table({"i": np.arange(ROWS) // 10, "k": (np.arange(ROWS) % 10).astype(np.int16), "x": dice.normal(0, 1, ROWS)})


def create(place: Path, **properties: Any) -> gl.TimeSeriesTable:
    return gl.create(place, index="i", index_type="int64", entity="k", bucket=1_000, properties=properties)


def codec_of(place: Path, table: gl.TimeSeriesTable) -> list[str]:
    files = [pq.read_metadata(place / segment.path) for segment in table.segments()]
    return [file.metadata[CODEC_KEY.encode()].decode() for file in files]


def left_in(place: Path) -> list[str]:
    return sorted(file.name for file in (place / "data").rglob("*")) if (place / "data").exists() else []


def test_a_table_that_says_nothing_is_balanced_and_stores_no_word(tmp_path: Path) -> None:
    table = create(tmp_path)
    assert (table.properties.codec, table.properties.changed()) == ("balanced", {})
    table.append(large().slice(0, 100))
    assert codec_of(tmp_path, table) == ["balanced"]


@pytest.mark.parametrize("codec", CODECS)
def test_a_codec_is_kept_and_names_itself_in_the_files(tmp_path: Path, codec: Codec) -> None:
    table = create(tmp_path, codec=codec)
    table.append(large().slice(0, 9_000))
    assert gl.open(tmp_path).properties.codec == codec
    assert codec_of(tmp_path, table) == [codec]


def test_a_codec_that_is_not_known_is_refused_with_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(InvalidOption, match="fastest"):
        create(tmp_path, codec="fast")


def test_compaction_takes_a_codec_by_its_name_once(tmp_path: Path) -> None:
    table = create(tmp_path, codec="fastest")
    table.append(large().slice(0, 9_000))
    for codec in ("smallest", "zstd", "fastest"):
        table.compact(codec=codec)
        version = table.version
        assert (codec_of(tmp_path, table), table.compact(codec=codec).version) == ([codec], version)


@pytest.mark.parametrize("codec", ["fastest", "balanced", "smallest"])
def test_a_large_append_is_the_same_rows_and_one_whole_file(tmp_path: Path, codec: Codec) -> None:
    table, rows = create(tmp_path, codec=codec), large()
    table.append(rows)
    (segment,) = table.segments()
    assert left_in(tmp_path) == [Path(segment.path).name]
    assert (tmp_path / segment.path).stat().st_size == segment.size
    assert gl.open(tmp_path).verify(deep=True).findings == ()
    wanted = rows.sort_by([("k", "ascending"), ("i", "ascending")])
    file = pq.read_table(tmp_path / segment.path, page_checksum_verification=True)
    assert file.select(rows.column_names).cast(rows.schema).equals(wanted)


@pytest.mark.parametrize("act", ["os.writev", "os.replace"])
def test_a_large_append_that_fails_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, act: str) -> None:
    table = create(tmp_path)

    def fail(*_args: object) -> None:
        raise OSError(errno.EIO, "the disk is gone")

    with monkeypatch.context() as patched:
        patched.setattr(f"gapless.store.local.temp_files.{act}", fail)
        with pytest.raises(StoreError, match=r"Input/output error|the disk is gone"):
            table.append(large())
    assert (table.version, left_in(tmp_path)) == (1, [])
    table.append(large())
    assert table.count() == ROWS


def test_what_is_refused_after_it_was_begun_leaves_nothing(tmp_path: Path) -> None:
    table = create(tmp_path)
    table.append(large())
    kept = left_in(tmp_path)
    with pytest.raises(gl.errors.CoverageOverlap):
        table.append(large())
    assert left_in(tmp_path) == kept
