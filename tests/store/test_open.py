"""From what users type to a store."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from gapless.errors import InvalidOption, InvalidPath
from gapless.store.local.store import LocalStore
from gapless.store.location import parse_location
from gapless.store.memory import MemoryStore
from gapless.store.object_store import ObjectStore
from gapless.store.open import open_store, table_name

NAMES = ["a b", "a%20b", "50%", "a#b", "a?b", "a*b", "a[b]", "é", "😈", "a\\b", "C:\\x", "a:b", " lead", "trail ", "a+b", "s3"]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("form", ["text", "path", "slash", "slashes", "relative", "dotted", "file url"])
def test_a_plain_path_is_taken_literally(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, form: str) -> None:
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / name
    given: Any = {
        "text": str(folder), "path": folder, "slash": f"{folder}/", "slashes": f"{folder}///", "relative": name,
        "dotted": f"./x/../{name}", "file url": folder.as_uri(),
    }[form]  # fmt: skip
    (tmp_path / "x").mkdir()
    store = open_store(given)
    assert isinstance(store, LocalStore)
    assert store.url == str(folder)
    store.put("a", b"x")
    assert (folder / "a").read_bytes() == b"x"
    assert table_name(given) == name
    again = open_store(store.url)
    assert again.url == store.url


def test_a_relative_path_is_resolved_when_it_is_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    store = open_store("prices")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    store.put("a", b"x")
    assert (tmp_path / "prices" / "a").exists()


def test_a_path_through_a_link_goes_where_the_system_goes(tmp_path: Path) -> None:
    (tmp_path / "real" / "deep").mkdir(parents=True)
    (tmp_path / "link").symlink_to("real/deep")
    assert open_store(tmp_path / "link" / ".." / "t").url == str(tmp_path / "real" / "t")
    assert table_name(tmp_path / "link") == "deep"


def test_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    assert open_store("~/t").url == open_store(Path("~/t")).url == str(tmp_path / "t")
    assert table_name("~") == tmp_path.name
    assert open_store("./~x").url == str(tmp_path / "~x")
    with pytest.raises(InvalidPath, match="No home directory"):
        open_store("~no-such-user-here/t")


@pytest.mark.parametrize(
    ("location", "url"),
    [("file:///tmp/a%20b", "/tmp/a b"), ("file://localhost/tmp/a%23", "/tmp/a#"), ("file:/tmp/x", "/tmp/x"),
     ("FILE:///tmp/%C3%A9/", "/tmp/é"), ("file:///tmp/a#b?c", "/tmp/a#b?c")],
)  # fmt: skip
def test_file_urls_are_decoded(location: str, url: str) -> None:
    assert open_store(location).url == os.path.realpath(url)


@pytest.mark.parametrize(
    "location",
    ["", "a\0b", b"a\0b", "file://host/x", "file://", "file:///a%00b", "memory://", "memory:///", "s3://", "s3:///x", "s3://b//x",
     "s3://b/a/../x", "s3://b/./x", "abfss://c@evil.example.com/x", "abfss://@a.dfs.core.windows.net/x"],
)  # fmt: skip
def test_a_location_that_names_no_place(location: Any) -> None:
    class Bytes(os.PathLike[str]):
        def __fspath__(self) -> Any:
            return location

    with pytest.raises(InvalidPath) as caught:
        open_store(Bytes() if isinstance(location, bytes) else location)
    assert caught.value.why
    assert caught.value.fix


@pytest.mark.parametrize(
    ("location", "hint"),
    [("s4://b/x", "'s3'"), ("gcs2://b/x", "'gcs'"), ("memry://x", "'memory'"), ("https://b.s3.amazonaws.com/x", "s3://"),
     ("http://host/x", "s3://"), ("hdfs://nn/x", "There are")],
)  # fmt: skip
def test_an_unknown_scheme_names_the_nearest(location: str, hint: str) -> None:
    with pytest.raises(InvalidPath) as caught:
        open_store(location)
    assert hint in caught.value.fix
    assert f"./{location}" in caught.value.fix


def test_a_url_that_went_through_pathlib_is_recognised() -> None:
    with pytest.raises(InvalidPath, match="takes one away") as caught:
        open_store(Path("s3://bucket/prices"))
    assert "'s3://bucket/prices'" in caught.value.fix


def test_a_file_is_no_table(tmp_path: Path) -> None:
    (tmp_path / "a.parquet").write_bytes(b"")
    with pytest.raises(InvalidPath, match="is a file"):
        open_store(tmp_path / "a.parquet")


def test_memory_is_shared_by_name() -> None:
    open_store("memory://shared-by-name/x/").put("a", b"1")
    store = open_store("memory://shared-by-name/x")
    assert isinstance(store, MemoryStore)
    assert store.get("a") == b"1"
    assert list(open_store("memory://shared-by-name").list()) == []


@pytest.mark.parametrize(
    ("location", "name"),
    [("s3://b/market/prices/", "prices"), ("s3a://b/p q", "p q"), ("s3://bucket", "bucket"), ("gs://b/x%20y", "x%20y"),
     ("memory://m", "m"), ("memory://a/b", "b"), ("az://c/t", "t"), ("abfss://c@acct.dfs.core.windows.net/d/t//", "t"),
     ("/", "table"), (Path("/data/prices"), "prices"), ("/data/prices.v2/", "prices.v2")],
)  # fmt: skip
def test_table_name(location: str | Path, name: str) -> None:
    assert table_name(location) == name


def test_keys_are_taken_literally() -> None:
    place = parse_location("s3://b/a%20b/c#d?e=f/")
    assert (place.kind, place.container, place.path, place.url) == ("s3", "b", "a%20b/c#d?e=f", "s3://b/a%20b/c#d?e=f")


def test_azure_accounts() -> None:
    place = parse_location("abfss://c@acct.dfs.core.windows.net/d")
    assert (place.kind, place.container, place.path, place.options) == ("az", "c", "d", (("account_name", "acct"),))
    fabric = parse_location("abfss://ws@onelake.dfs.fabric.microsoft.com/d")
    assert dict(fabric.options)["use_fabric_endpoint"] == "true"


@pytest.mark.parametrize("location", ["/tmp/x", "memory://x", "file:///tmp/x"])
def test_options_without_a_bucket(location: str) -> None:
    assert open_store(location, {}).url
    with pytest.raises(InvalidOption, match="no storage options") as caught:
        open_store(location, {"region": "eu-west-1"})
    assert caught.value.option == "region"


@pytest.mark.parametrize("scheme", ["s3", "s3a", "gs", "az", "abfss"])
def test_buckets_open_without_a_request(scheme: str) -> None:
    options = {"account_name": "a", "account_key": "eA=="} if scheme in ("az", "abfss") else {"skip_signature": "true"}
    store = open_store(f"{scheme}://bucket/t/", options)
    assert isinstance(store, ObjectStore)
    assert store.url == f"{scheme}://bucket/t"


def test_opening_a_local_table_loads_no_object_store() -> None:
    code = "import sys; from gapless.store.open import open_store; open_store('/tmp/x'); open_store('memory://x'); print('obstore' in sys.modules)"
    answer = subprocess.run(
        [sys.executable, "-c", code],
        check=True,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert answer.stdout.strip() == "False"
