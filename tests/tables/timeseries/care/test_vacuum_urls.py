"""Vacuum of a table in a bucket, by each way to spell its place."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

import gapless as gl
from gapless.errors import InvalidPath
from gapless.formats.timeseries.actions import RemoveSegment
from gapless.store.open import open_store
from support.clocked_table import commit_actions, rows_at

Options = dict[str, str]


@pytest.fixture
def place(s3_options: tuple[str, Options]) -> tuple[str, Options, str, str]:
    """URL, options, a segment that only expired versions have, a live one; written by way of `s3a://…/`."""
    url, options = s3_options
    for name in ("t", "t2", "t/child"):
        table = gl.create(f"{url}/{name}/".replace("s3://", "s3a://"), index="ts", bucket="1h", storage_options=options)
        table.append(rows_at(0))
        table.append(rows_at(1))
        first, second = (segment.path for segment in table.segments())
        commit_actions(table, RemoveSegment(first))
        table.refresh().expire(keep_versions=1)
        if name == "t":
            found = first, second
    return f"{url}/t", options, *found


def segments(url: str, options: Options) -> set[str]:
    return {info.path for info in open_store(url, options).list("data")}


@pytest.mark.parametrize("form", ["{}", "{}/", "{}//"])
def test_maint_07_no_live_file_goes_however_the_url_is_spelled(place: tuple[Any, ...], form: str) -> None:
    url, options, first, second = place
    report = gl.open(form.format(url), storage_options=options).vacuum(timedelta(0), dry_run=False)
    assert {entry.path: entry.reason for entry in report.entries} == {first: "expired", second: "live"}
    assert segments(url, options) == {second}
    assert len(segments(f"{url}2", options)) == 2, "a neighbour whose name begins alike"
    assert len(segments(f"{url}/child", options)) == 2, "a table in this table's folder"
    assert gl.open(url, storage_options=options).scan().to_arrow().num_rows == 1


@pytest.mark.parametrize("form", ["s3://{0}//{1}", "s3://{0}/{1}/.", "s3://{0}/./{1}", "s3://{0}/x/../{1}"])
def test_maint_07_a_key_that_could_mean_two_places_is_refused(place: tuple[Any, ...], form: str) -> None:
    url, options, first, second = place
    bucket, _, key = url.removeprefix("s3://").partition("/")
    with pytest.raises(InvalidPath):
        gl.open(form.format(bucket, key), storage_options=options)
    assert segments(url, options) == {first, second}


def test_coverage_goes_with_its_segment(place: tuple[Any, ...]) -> None:
    url, options, first, second = place
    store = open_store(url, options)
    beside = [f"_coverage/segments/{first[5:41]}.{kind}" for kind in ("roar", "idx")]
    for path in beside:
        store.put(path, b"")
    assert {e.path for e in gl.open(url, storage_options=options).vacuum(timedelta(0), dry_run=False).deleted} == {
        first,
        *beside,
    }
    assert segments(url, options) == {second}
