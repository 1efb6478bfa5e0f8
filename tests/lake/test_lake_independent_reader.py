"""A process without gapless reads a lake as docs/reference/lake-layout.md says; the documents are as their schema says."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import jsonschema  # type: ignore[import-untyped]  # has no types
import pytest

from gapless.errors import PartialFailure
from gapless.lake import Page
from gapless.lake.catalog.rows import DDL
from gapless.lake.lake import Lake

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "reference" / "lake-layout.md").read_text(encoding="utf-8")
_READER = """
import hashlib, json, os, sys
sys.path[:] = [path for path in sys.path if not os.path.isdir(os.path.join(path or ".", "gapless"))]
try:
    import gapless
except ModuleNotFoundError:
    pass
else:
    raise SystemExit("gapless is here")
{page}
root = sys.argv[1]
print(json.dumps([sorted(rows(root, table).fetchall()) for table in ("events", "some", "more")]))
connection = duckdb.connect()
connection.execute(f"SET file_search_path = '{{root}}'")
connection.execute(open(f"{{root}}/views/orders.sql").read())
print(json.dumps(connection.sql("SELECT id, v FROM orders ORDER BY id").fetchall()))
import pyarrow.parquet as pq
named = 0
for path in glob.glob(f"{{root}}/tables/*/data/runs/run-*/*/_manifest.json"):
    for file in json.load(open(path))["files"]:
        data = open(os.path.join(os.path.dirname(path), file["path"]), "rb").read()
        assert hashlib.sha256(data).hexdigest() == file["sha256"] and len(data) == file["bytes"]
        named += pq.read_metadata(os.path.join(os.path.dirname(path), file["path"])).num_rows == file["rows"]
print(named)
"""


def filled(lake: Lake) -> None:
    lake.create_table("events")
    pages = [Page([{"id": 1}], 1), Page([{"id": 2}], 2)]

    def fails(_: object) -> object:
        yield from pages
        raise ConnectionError

    with pytest.raises(PartialFailure):
        lake.run("events", fails, cursor="opaque")
    lake.run("events", lambda _: iter([Page([{"id": 3}], 3)]), cursor="opaque")
    lake.create_table("orders", key="id")
    lake.run("orders", [{"id": 1, "v": 1}, {"id": 2, "v": 2}])
    lake.run("orders", [{"id": 2, "v": "n/a", "w": {"x": 1}}])


def test_a_process_without_gapless_reads_it_by_the_page(lake: Lake, tmp_path: Path) -> None:
    filled(lake)
    stray = next((tmp_path / "lake/tables/events").rglob("part-*.parquet"))
    for step, snapshots in enumerate(("some", "more")):
        table = lake.create_table(snapshots)
        lake.run(snapshots, [{"id": 1}])
        table.compact()
        lake.run(snapshots, [{"id": 2}])
        if step:
            table.compact(incremental=True)
            table.expire(keep_s=-1)
        lake.run(snapshots, [{"id": 3}])
    (stray.parent / "part-00009-stray.parquet").write_bytes(stray.read_bytes())
    code = PAGE.partition("```python\n")[2].partition("```")[0]
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    told = subprocess.run(
        [sys.executable, "-c", _READER.format(page=code), str(tmp_path / "lake")],
        capture_output=True, text=True, check=False, env=clean, cwd=tmp_path,
    )  # fmt: skip
    assert told.returncode == 0, told.stderr
    events, orders, named = map(json.loads, told.stdout.splitlines())
    assert events == [[[1], [2], [3]]] * 3
    assert orders == [[1, "1"], [2, "n/a"]]
    assert named == 4 + 3 + 1


def test_every_manifest_is_as_its_schema_says(lake: Lake, tmp_path: Path) -> None:
    filled(lake)
    schema = json.loads((ROOT / "docs" / "reference" / "lake-manifest.schema.json").read_text())
    documents = [json.loads(path.read_text()) for path in (tmp_path / "lake").rglob("_manifest.json")]
    assert len(documents) == 4
    for one in documents:
        jsonschema.validate(one, schema)
        assert one.keys() == schema["properties"].keys()
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**documents[0], "status": "done"}, schema)


def test_the_page_has_the_tables_of_the_catalog() -> None:
    assert DDL.strip() in PAGE
