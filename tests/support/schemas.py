"""The published JSON Schemas of what sinks and pipelines store, and every document of a test held to them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]  # has no types
from referencing import Registry, Resource

from gapless.connect import checkpoint_store
from gapless.tables.shared import prepared

SPEC = Path(__file__).resolve().parents[2] / "docs" / "spec"
NAMES = ("prepared-commit", "pipeline-checkpoint", "pipeline-decision")
SCHEMAS: Mapping[str, Any] = {name: json.loads((SPEC / f"{name}.schema.json").read_text(encoding="utf-8")) for name in NAMES}
_REGISTRY: Registry[Any] = Registry().with_resources((one["$id"], Resource.from_contents(one)) for one in SCHEMAS.values())
_VALIDATORS = {name: Draft202012Validator(schema, registry=_REGISTRY) for name, schema in SCHEMAS.items()}
_TOLD_BY = {"operation": "prepared-commit", "cursor": "pipeline-checkpoint", "commit": "pipeline-decision"}
"""By a field that only one of them has."""


def problems(text: str | bytes) -> list[str]:
    """What a document says that its schema does not, as docs/spec would have it changed."""
    body = json.loads(text)
    (name,) = [name for field, name in _TOLD_BY.items() if field in body]
    return [f"{name}.schema.json: {error.json_path}: {error.message}" for error in _VALIDATORS[name].iter_errors(body)]


@pytest.fixture
def stored_documents(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """All documents that a test seals, each of which is as its schema says."""
    found: list[str] = []
    seal = prepared.sealed

    def sealing(body: Mapping[str, Any]) -> str:
        text = seal(body)
        found.append(text)
        return text

    for module in (prepared, checkpoint_store):
        monkeypatch.setattr(module, "sealed", sealing)
    yield found
    if wrong := [problem for text in found for problem in problems(text)]:
        pytest.fail("a document is not as docs/spec publishes it: " + "; ".join(wrong), pytrace=False)
