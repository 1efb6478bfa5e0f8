"""The pages about Spark do what they show."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[3]

# pyspark leaves sockets of collected answers to the garbage collector.
pytestmark = pytest.mark.filterwarnings(
    "ignore:.*unclosed.*:ResourceWarning", "ignore:.*socket:pytest.PytestUnraisableExceptionWarning"
)


@pytest.mark.parametrize(("page", "count"), [("spark", 9), ("spark-streams", 5), ("spark-delta", 4), ("pipelines", 3)])
def test_the_blocks_of_a_page_run_and_give_what_it_shows(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, page: str, count: int
) -> None:
    spec = importlib.util.spec_from_file_location("code_blocks", ROOT / "tests/docs/test_code_blocks.py")
    assert spec is not None
    assert spec.loader is not None
    runner: Any = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "code_blocks", runner)
    spec.loader.exec_module(runner)
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"__name__": "page"}
    blocks = [block for block in runner.blocks_of(ROOT / f"docs/howto/{page}.md") if block.language == "python"]
    assert len(blocks) == count
    for block in blocks:
        runner.run_python(block, names)
