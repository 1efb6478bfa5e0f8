"""The published JSON Schemas are schemas, take what we store, and refuse what is wrong in it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]  # has no types

from gapless.connect import CheckpointStore, Runner, sink, source
from gapless.connect.sinks import open as open_sink
from gapless.connect.sinks.change import MODES as SINK_MODES
from support.pipelines import KINDS, made, opened, rows
from support.schemas import SCHEMAS, problems


@pytest.fixture(params=KINDS)
def documents(request: pytest.FixtureRequest, tmp_path: Path, stored_documents: list[str]) -> dict[str, Any]:
    """One of each kind, as a pipeline stored them."""
    made("timeseries", tmp_path / "feed").append(rows(0, 3))
    made(request.param, tmp_path / "out")
    Runner(
        source(f"timeseries:{tmp_path / 'feed'}"),
        None,
        {"out": sink(f"{request.param}:{tmp_path / 'out'}", pipeline="orders", name="out")},
        CheckpointStore(tmp_path / "checkpoints"),
    ).run()
    assert opened(request.param, tmp_path / "out").scan().count() == 3
    manifest = max((tmp_path / "checkpoints").glob("*.json"))
    decided = json.loads(manifest.with_suffix(".decided").read_bytes())
    assert decided["commit"]
    found = json.loads(manifest.read_bytes())
    assert stored_documents
    return {"prepared-commit": found["prepared"]["out"], "pipeline-checkpoint": found, "pipeline-decision": decided}


@pytest.mark.parametrize("name", SCHEMAS)
def test_a_published_schema_is_one(name: str) -> None:
    Draft202012Validator.check_schema(SCHEMAS[name])


def test_what_a_pipeline_stores_is_as_published(documents: dict[str, Any]) -> None:
    assert {name: problems(json.dumps(body)) for name, body in documents.items()} == {name: [] for name in SCHEMAS}


def test_all_modes_and_their_options_are_published() -> None:
    published = SCHEMAS["prepared-commit"]["$defs"]["change"]["properties"]
    assert set(published["mode"]["enum"]) == set(SINK_MODES)
    assert published.keys() == {"mode"}.union(*open_sink._CHANGE_OPTIONS.values())


def removing(*path: str) -> Callable[[Any], None]:
    def change(body: Any) -> None:
        for step in path[:-1]:
            body = body[step]
        del body[path[-1]]

    return change


def setting(value: object, *path: str) -> Callable[[Any], None]:
    def change(body: Any) -> None:
        for step in path[:-1]:
            body = body[step]
        body[path[-1]] = value

    return change


WRONG: Mapping[str, tuple[str, Callable[[Any], None]]] = {
    "a newer format": ("prepared-commit", setting(2, "format")),
    "no checksum": ("prepared-commit", removing("checksum")),
    "a field more": ("prepared-commit", setting(1, "more")),
    "an unknown mode": ("prepared-commit", setting("merge", "change", "mode")),
    "an unknown option": ("prepared-commit", setting(1, "change", "more")),
    "an absolute path": ("prepared-commit", lambda body: body["files"][0].update(path="/etc/passwd")),
    "rows that are no number": ("prepared-commit", lambda body: body["files"][0].update(rows="3")),
    "no app": ("prepared-commit", setting("orders", "operation", "app")),
    "nothing staged": ("prepared-commit", setting({}, "staged")),
    "no cursor": ("pipeline-checkpoint", setting(None, "cursor")),
    "a cursor of nothing": ("pipeline-checkpoint", removing("cursor", "source")),
    "a prepared commit that is none": ("pipeline-checkpoint", removing("prepared", "out", "kind")),
    "no decision": ("pipeline-decision", setting("true", "commit")),
    "a commit of nothing": ("pipeline-decision", setting(None, "checkpoint")),
    "a copy that is none": ("pipeline-decision", removing("checkpoint", "id")),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_what_is_wrong_is_refused(wrong: str, documents: dict[str, Any]) -> None:
    name, change = WRONG[wrong]
    change(documents[name])
    assert problems(json.dumps(documents[name]))
