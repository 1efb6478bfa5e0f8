"""The statements in docs/howto/pipelines.md are read: those that need what no test machine has run elsewhere, over what it has."""

from __future__ import annotations

import re
from pathlib import Path

from gapless.pipelines.definitions import read_pipeline
from gapless.pipelines.language.statements import CreateSink, CreateSource

PAGE = Path(__file__).resolve().parents[2] / "docs" / "howto" / "pipelines.md"


def test_all_statements_of_the_page_are_read() -> None:
    text = "\n".join(re.findall(r"^```sql\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL))
    pipeline = read_pipeline(text, "pipelines.md", lambda _, name: f"a {name}")
    assert {one.type for one in pipeline.of(CreateSource)} >= {"iceberg", "hudi", "http"}
    assert {one.type for one in pipeline.of(CreateSink)} >= {"jdbc", "kafka"}
    assert "a AIR_PASSWORD" not in repr(pipeline)
