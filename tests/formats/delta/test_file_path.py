"""Paths in the log: ours mean one thing to every reader, and those of other writers lead to their files."""

from __future__ import annotations

import json
from pathlib import Path
from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gapless.errors import CorruptTable, UnsupportedTable
from gapless.formats.delta.file_path import AbsolutePath, RelativePath, canonical, locate, log_path

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures" / "delta"

parts = st.text(st.characters(codec="utf-8", exclude_characters="/\0"), min_size=1).filter(lambda part: part not in (".", ".."))
paths = st.lists(parts, min_size=1, max_size=3).map("/".join)


@given(paths)
def test_a_path_of_ours_comes_back(path: str) -> None:
    text = log_path(path)
    assert locate(text) == RelativePath(path)
    assert unquote(text) == path
    assert text.isascii()
    assert not set(text) & set(" \\\"<>#?{}|^`[]:;@&+$,!*'()")
    assert canonical(text) == canonical(unquote(text).replace("%", "%25"))


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("part-0.parquet", RelativePath("part-0.parquet")),
        ("special%20p@%23h", RelativePath("special p@#h")),
        ("p=é%252Fü/a.parquet", RelativePath("p=é%2Fü/a.parquet")),
        ("bar%2Dbar.snappy.parquet", RelativePath("bar-bar.snappy.parquet")),
        ("p=./a", RelativePath("p=./a")),
        ("a+b", RelativePath("a+b")),
        ("/some/absolute/path", AbsolutePath("file:///some/absolute/path")),
        ("file:/a/b%20c", AbsolutePath("file:///a/b c")),
        ("file:///a/b", AbsolutePath("file:///a/b")),
        ("s3://bucket/a%20b", AbsolutePath("s3://bucket/a b")),
        ("s3a://bucket/k", AbsolutePath("s3a://bucket/k")),
        ("abfss://c@acc.dfs.core.windows.net/k", AbsolutePath("abfss://c@acc.dfs.core.windows.net/k")),
    ],
)
def test_paths_of_other_writers(text: str, place: RelativePath | AbsolutePath) -> None:
    if text == "/some/absolute/path":
        place = AbsolutePath("/some/absolute/path")  # of the table's own file system, which need not be the local one
    assert locate(text) == place


@pytest.mark.parametrize(
    "text", ["C:/data/a.parquet", "c:\\data\\a.parquet", "day=1\\a.parquet", "\\\\server\\share\\a.parquet"]
)
def test_path_05_delta_paths_of_windows_are_refused(text: str) -> None:
    with pytest.raises(UnsupportedTable, match="by a path of Windows"):
        locate(text)


@pytest.mark.parametrize("text", ["", ".", "../a", "a/../../b", "a/%2E%2E/b", "%FF", "a%00b"])
def test_what_is_no_path(text: str) -> None:
    with pytest.raises(CorruptTable, match="is no path") as caught:
        locate(text)
    assert caught.value.path == text


def test_one_identity_for_every_spelling() -> None:
    """What golden table canonicalized-paths-normal-b shows: added by its path, removed by its URI."""
    assert len({canonical(text) for text in ("/a/b c", "file:///a/b%20c", "file:/a/b%20c", "/a/b%20c")}) == 1
    assert canonical("p=%25C3/é.parquet") == canonical("p=%25C3/%C3%A9.parquet")
    assert canonical("p=%2525/a") != canonical("p=%25/a")
    assert canonical("plain/path=1.parquet") == "plain/path=1.parquet"


def test_every_path_of_the_fixtures_leads_to_its_file() -> None:
    found = 0
    for log in FIXTURES.glob("*/table/_delta_log/*.json"):
        for line in log.read_text().splitlines():
            action = json.loads(line)
            for kind in ("add", "cdc"):
                if kind in action:
                    place = locate(action[kind]["path"])
                    assert isinstance(place, RelativePath)
                    assert (log.parents[1] / place.path).exists(), action[kind]["path"]
                    found += 1
    assert found > 50
