"""Values of options, and `gapless.toml`."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import gapless as gl
from gapless.errors import InvalidOption, InvalidPipeline, UnreadableInput
from gapless.pipelines.config import Config, parse_config, read_config
from gapless.pipelines.options.values import fill_secrets, parse_names, parse_size


@pytest.mark.parametrize(
    ("given", "size"),
    [
        ("128MB", 128_000_000),
        ("128 MiB", 128 << 20),
        (4096, 4096),
        ("4096", 4096),
        ("1.5kb", 1500),
        ("1 TiB", 1 << 40),
        ("7b", 7),
    ],
)
def test_sizes_are_counted_as_their_units_say(given: object, size: int) -> None:
    assert parse_size(given, "target_file_size") == size


@pytest.mark.parametrize("given", ["", "MB", "128 MX", "-1", "0", 0, True, 1.5, None, "1e3", "10 parsecs", "99999 TB" * 9])
def test_what_is_no_size_is_refused(given: object) -> None:
    with pytest.raises(InvalidOption, match="target_file_size"):
        parse_size(given, "target_file_size")


def test_names_stand_between_commas() -> None:
    assert parse_names(" a, b c ,d", "key") == ("a", "b c", "d")
    for given in ("", "a,,b", ",", 3):
        with pytest.raises(InvalidOption, match="list of names"):
            parse_names(given, "key")


def test_secrets_are_looked_up_and_shown_nowhere() -> None:
    known = {("env", "A"): "hunter2", ("file", "/run/secret"): "s3"}
    assert fill_secrets("x-${env:A}-${file:/run/secret}", "url", lambda *one: known.get(one)) == "x-hunter2-s3"
    with pytest.raises(InvalidOption, match=re.escape("url needs the environment variable 'B', which is not there")):
        fill_secrets("${env:B}", "url", lambda *one: known.get(one))
    with pytest.raises(InvalidOption, match=r"stands for nothing"):
        fill_secrets("${vault:B}", "url", lambda *one: known.get(one))


def test_settings_are_read_and_unknown_ones_refused(tmp_path: Path) -> None:
    assert read_config(tmp_path) == Config()
    text = '[pipelines]\ncheckpoints = "state"\nmaster = "local[2]"\n[pipelines.spark]\n"spark.driver.memory" = "2g"\n'
    (tmp_path / "gapless.toml").write_text(text, encoding="utf-8")
    assert read_config(tmp_path) == Config(
        checkpoints=str(tmp_path / "state"), master="local[2]", spark={"spark.driver.memory": "2g"}
    )
    for wrong, said in (
        ("[pipelins]", "Did you mean 'pipelines'"),
        ("[pipelines]\nmastr = 'x'", "Did you mean 'master'"),
        ("[pipelines]\nmaster = 3", "It is a text"),
        ("pipelines = 3", "is no table"),
        ("[pipelines", "it is no TOML"),
    ):
        with pytest.raises(InvalidOption, match=said):
            parse_config(wrong, tmp_path / "gapless.toml")


def test_a_pipeline_is_a_file_or_a_text_and_has_a_name(tmp_path: Path) -> None:
    (tmp_path / "orders.sql").write_text("CREATE SOURCE s WITH (type='rate');", encoding="utf-8")
    read = gl.pipeline(tmp_path / "orders.sql")
    assert (read.name, repr(read)) == ("orders", "<pipeline orders of 0 sinks>")
    assert read.state.url.endswith("/.gapless/pipelines/orders")
    with pytest.raises(UnreadableInput, match=r"nope\.sql"):
        gl.pipeline(tmp_path / "nope.sql")
    wrong: list[dict[str, Any]] = [{}, {"path": "a.sql", "sql": "x"}, {"sql": "x"}, {"sql": "x", "name": "../x"}]
    for given in wrong:
        with pytest.raises(InvalidOption):
            gl.pipeline(**given)
    with pytest.raises(InvalidPipeline, match=r"^p\.sql:1:1: "):
        gl.pipeline(sql="x", name="p")
