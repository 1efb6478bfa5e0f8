"""Options that are one of a few words: whatever else a caller passes is refused by the option's name, shortly, with the nearest word."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import gapless as gl
from gapless.connect import sink, source
from gapless.errors import InvalidOption, one_of
from gapless.files.adopt.copy_or_link import parse_adopt

SCHEMA = pa.schema([("ts", pa.timestamp("us", "UTC")), ("id", pa.int64())])
CREATE: Any = gl.create
"""As a caller has it whom no type checker warns."""
KEYED: dict[str, Any] = {"pipeline": "p", "name": "s"}
CALLS: dict[str, Callable[[Any, Any, str, Any], object]] = {
    "on_overlap": lambda series, _delta, _place, word: series.append({}, on_overlap=word),
    "codec": lambda series, _delta, _place, word: series.compact(codec=word),
    "codec ": lambda _series, _delta, _place, word: CREATE("memory://words", index="ts", bucket="1h", codec=word),
    "index_type": lambda _series, _delta, _place, word: CREATE("memory://words", index="ts", bucket="1h", index_type=word),
    "on_duplicate": lambda series, _delta, _place, word: series.upsert({}, on_duplicate=word),
    "on_error": lambda series, _delta, _place, word: series.fill(lambda *_: None, on_error=word),
    "order": lambda series, _delta, _place, word: series.scan(order=word).to_arrow(),
    "adopt": lambda _series, _delta, _place, word: parse_adopt(word),
    "timestamp_unit": lambda _series, _delta, _place, word: gl.Csv(timestamp_unit=word),
    "curve": lambda _series, delta, _place, word: delta.zorder(["id"], curve=word),
    "keep": lambda _series, delta, _place, word: delta.dedup("id", keep=word),
    "schema_mode": lambda _series, delta, _place, word: delta.append({"id": [1]}, schema_mode=word),
    "partitions": lambda _series, delta, _place, word: delta.overwrite({"id": [1]}, partitions=word),
    "mode": lambda _series, _delta, place, word: sink(f"delta:{place}", mode=word, **KEYED),
    "schema_evolution": lambda _series, _delta, place, word: sink(f"delta:{place}", schema_evolution=word, **KEYED),
    "on_empty": lambda _series, _delta, place, word: sink(f"delta:{place}", mode="overwrite", on_empty=word, **KEYED),
    "mode ": lambda _series, _delta, place, word: source(f"delta:{place}", mode=word),
    "on_change": lambda _series, _delta, place, word: source(f"delta:{place}", on_change=word),
    "on_missing_versions": lambda _series, _delta, place, word: source(f"delta:{place}", on_missing_versions=word),
    "on_schema_change": lambda _series, _delta, place, word: source(f"delta:{place}", on_schema_change=word),
    "on_rewrite": lambda _series, _delta, place, word: source(f"files:{place}/*", on_rewrite=word),
    "format": lambda _series, _delta, _place, word: source("kafka:t", brokers="b", format=word),
    "on_missing": lambda _series, _delta, _place, word: source("kafka:t", brokers="b", on_missing=word),
}


WRONG: tuple[Any, ...] = ("x" * 1000, ["first"], np.array(["a", "b"]), 7, {})


@pytest.mark.parametrize("name", CALLS)
def test_what_is_none_of_the_words_is_refused_by_name(name: str, tmp_path: Path) -> None:
    series = gl.create(tmp_path / "s", index="ts", bucket="1h", schema=SCHEMA)
    delta = gl.delta.create(tmp_path / "d", SCHEMA)
    for value in WRONG:
        with pytest.raises(InvalidOption) as caught:
            CALLS[name](series, delta, str(tmp_path / "d"), value)
        assert caught.value.option == name.strip()
        assert len(str(caught.value)) < 500
    assert (series.refresh().version, delta.refresh().version) == (1, 0)


def test_the_nearest_word_is_named() -> None:
    assert one_of("mode", "append", ("append", "upsert")) == "append"
    with pytest.raises(InvalidOption, match=r"mode='upset' is not known. It says so\. Did you mean 'upsert'\?"):
        one_of("mode", "upset", ("append", "upsert"), "It says so")
