"""Options of sinks into tables: what of them is shown, and what is refused before anything is opened."""

from __future__ import annotations

from pathlib import Path

import pytest

from gapless.errors import InvalidOption, InvalidPipeline
from gapless.pipelines.definitions import Pipeline, read_pipeline, shown
from gapless.pipelines.language.statements import CreateSink, ShowCreate
from gapless.pipelines.run.sinks import batch_sink

SINK = "CREATE SOURCE s WITH (type='rate'); CREATE SINK k WITH (type='{type}', {options}) AS SELECT * FROM s;"


def read(kind: str, options: str, more: str = "") -> Pipeline:
    return read_pipeline(SINK.format(type=kind, options=options) + more, "a.sql", lambda _kind, _name: "word5")


def test_secrets_of_stores_and_catalogs_are_masked() -> None:
    options = (
        "location='sales.t', catalog_type='rest', catalog_uri='https://ada:word1@host', catalog.credential='word2',"
        " storage.aws_secret_access_key='word3', storage.azure_storage_account_key='word4',"
        " storage.aws_endpoint='http://host', storage.aws_session_token='${env:TOKEN}'"
    )
    pipeline = read("iceberg", options, "SHOW CREATE SINK k;")
    request, then = pipeline.requests[0]
    assert isinstance(request, ShowCreate)
    (row,) = shown(request, then)
    (sink,) = pipeline.of(CreateSink)
    writer = batch_sink(sink, "append", "app")
    for secret in ("word1", "word2", "word3", "word4", "word5"):
        assert secret not in row["statement"] + repr(pipeline) + repr(writer)
    assert "'http://host'" in row["statement"]
    assert "'${env:TOKEN}'" in row["statement"]


@pytest.mark.parametrize("kind", ["iceberg", "hudi"])
def test_a_wrong_option_names_the_nearest(kind: str, tmp_path: Path) -> None:
    for options, said in (
        ("partition_bye='id'", "Did you mean 'partition_by'"),
        ("target_file_size='10 parsecs'", "no size"),
        ("schema_evolution='grow'", "schema_evolution"),
        ("uniform_iceberg=TRUE", "It is one of delta"),
    ):
        with pytest.raises(InvalidPipeline, match=said):
            read(kind, f"location='{tmp_path}', {options}")


def test_a_table_that_is_not_named_and_a_catalog_that_is_not_known_are_refused(tmp_path: Path) -> None:
    for kind, options, said in (
        ("iceberg", "catalog_type='rest'", "no Iceberg table is named"),
        ("iceberg", "location='a.b', catalog_type='nessy'", "pip install"),
        ("iceberg", "location='a.b', catalog_type='rest', order_by='v'", "order_by"),
        ("iceberg", f"location='{tmp_path}', partition_by='DAYZ(ts)'", "partition_by"),
        ("hudi", f"location='{tmp_path}', order_by='v'", "order_by"),
    ):
        (sink,) = read(kind, options).of(CreateSink)
        with pytest.raises(InvalidOption, match=said):
            batch_sink(sink, "append", "app")
