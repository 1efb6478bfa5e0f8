"""Where pages lie is the same whether their headers are of the usual form or read field by field."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import gapless as gl
from gapless.files.pages import page_map
from gapless.files.pages.page_map import PageMap, map_pages
from gapless.files.pages.thrift import unsigned

ROWS = 5_000
NEVER = re.compile(rb"(?!)")
Told = list[PageMap | None] | str


def rows() -> pa.Table:
    dice = np.random.default_rng(1)
    some = dice.random(ROWS) < 0.1
    return pa.table(
        {
            "i": np.arange(ROWS),
            "small": pa.array(dice.integers(-9, 9, ROWS).astype(np.int32), mask=some),
            "x": pa.array(dice.normal(0, 1, ROWS), mask=some),
            "f": dice.normal(0, 1, ROWS).astype(np.float32),
            "flag": dice.random(ROWS) < 0.5,
            "k": [f"name {n % 7}" * (n % 5) for n in range(ROWS)],
            "none": pa.nulls(ROWS, pa.int64()),
        }
    )


def maps(path: Path) -> list[PageMap | None]:
    metadata, file = pq.read_metadata(path), pa.BufferReader(path.read_bytes())
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    return [map_pages(file, group.column(leaf), group.num_rows) for group in groups for leaf in range(group.num_columns)]


def told(path: Path) -> Told:
    """Where the pages are, or why that is refused."""
    try:
        return maps(path)
    except pa.ArrowInvalid as error:
        return str(error)


def both_ways(path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Told, Told]:
    usual = told(path)
    with monkeypatch.context() as patch:
        patch.setattr(page_map, "_USUAL", NEVER)
        return usual, told(path)


@pytest.mark.parametrize(
    "options",
    [{}, {"write_statistics": False}, {"write_page_checksum": False}, {"use_dictionary": False}, {"data_page_version": "2.0"}, {"compression": "none"}],
    ids=str,
)  # fmt: skip
def test_headers_of_arrow(tmp_path: Path, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    given = {"write_page_checksum": True, "data_page_size": 1_000, "write_batch_size": 100} | options
    pq.write_table(rows(), tmp_path / "f.parquet", **given)
    usual, slow = both_ways(tmp_path / "f.parquet", monkeypatch)
    assert usual == slow
    assert all(found is not None for found in slow)


@pytest.mark.parametrize("codec", ["fastest", "balanced", "smallest"])
def test_headers_of_our_own(tmp_path: Path, codec: str, monkeypatch: pytest.MonkeyPatch) -> None:
    table = gl.create(tmp_path / "t", index="i", index_type="int64", entity=["k"], bucket=100, properties={"codec": codec})
    table.append(rows().drop_columns(["none"]))
    usual, slow = both_ways(next((tmp_path / "t" / "data").glob("*.parquet")), monkeypatch)
    assert usual == slow
    assert all(found is not None for found in slow)


def test_altered_headers_say_the_same_either_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """But where a header is cut off or is none, which is left to Arrow."""
    path = tmp_path / "f.parquet"
    pq.write_table(rows().select(["x"]), path, write_page_checksum=True, data_page_size=1_000, use_dictionary=False)
    good = path.read_bytes()
    (found,) = maps(path)
    assert found is not None
    page = found.pages[1]
    for at in range(page.start, page.body):
        for flipped in (1, 2, 8, 64, 128):
            path.write_bytes(good[:at] + bytes([good[at] ^ flipped]) + good[at + 1 :])
            usual, slow = both_ways(path, monkeypatch)
            assert usual == slow, (at - page.start, flipped)


@pytest.mark.parametrize("size", [-1, -(2**31), 2**31, 2**62, 2**66])
@pytest.mark.parametrize("usual", [True, False])
def test_a_page_of_a_size_that_none_has_is_left_to_arrow(size: int, usual: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """It would be the size of a buffer, or too large a number for one."""
    sink = pa.BufferOutputStream()
    pq.write_table(rows().select(["x"]), sink, write_page_checksum=True, use_dictionary=False)
    good = sink.getvalue().to_pybytes()
    header = page_map._USUAL.match(good, 4)
    assert header is not None
    start, end = header.span(1)
    altered = good[:start] + unsigned(size << 1 if size >= 0 else ~(size << 1)) + good[end:]
    footer = pq.read_metadata(pa.BufferReader(good)).row_group(0).column(0)
    longer = len(altered) - len(good)
    chunk: Any = SimpleNamespace(
        dictionary_page_offset=None, data_page_offset=4, total_compressed_size=footer.total_compressed_size + longer
    )
    if not usual:
        monkeypatch.setattr(page_map, "_USUAL", NEVER)
    assert map_pages(pa.BufferReader(altered), chunk, ROWS) is None
