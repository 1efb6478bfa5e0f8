"""How pipelines would be filled, held against a file: which sinks share a read, how, and over which operators of Spark's."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import gapless as gl
from gapless.pipelines.language.statements import CreateSink, Explain
from gapless.pipelines.run.answers import explain

ROOT = Path(__file__).resolve().parents[3]
GOLDEN = ROOT / "tests" / "fixtures" / "pipelines" / "plans.txt"
EVENTS = """CREATE SOURCE events (id BIGINT, ts TIMESTAMP, site STRING, WATERMARK FOR ts AS ts - INTERVAL '10 minutes')
WITH (type='json', location='{root}/in');
"""
SITES = (
    "CREATE LOOKUP TABLE sites (site STRING, name STRING, PRIMARY KEY (site)) WITH (type='csv', location='{root}/sites.csv');\n"
)
OTHERS = """CREATE SOURCE others (id BIGINT, at TIMESTAMP, WATERMARK FOR at AS at - INTERVAL '5 minutes')
WITH (type='json', location='{root}/in');
"""
WHOLE = "CREATE SOURCE whole (id BIGINT, site STRING) WITH (type='json', location='{root}/in', mode='batch');\n"
PIPELINES = {
    "rows of one source, into two kinds of tables": EVENTS
    + "CREATE SINK air WITH (type='timeseries', location='{root}/air', index='ts', bucket='1h') AS SELECT * FROM events;"
    "CREATE SINK copy FROM events INTO DELTA (location='{root}/copy');",
    "rows that are looked up": EVENTS + SITES + "CREATE SINK named WITH (type='delta', location='{root}/named') AS"
    " SELECT e.id, s.name FROM events e LEFT JOIN sites s ON e.site = s.site;",
    "counts that change": EVENTS + "CREATE SINK counts WITH (type='delta', location='{root}/counts', key='site') AS"
    " SELECT site, count(*) AS n FROM events GROUP BY site;",
    "counts that change, all anew": EVENTS
    + "CREATE SINK newest WITH (type='timeseries', location='{root}/newest', index='ts', bucket='1h') AS"
    " SELECT site, max(ts) AS ts FROM events GROUP BY site;",
    "two streams that are joined": EVENTS
    + OTHERS
    + "CREATE SINK joined WITH (type='delta', location='{root}/joined') AS SELECT e.id, o.at FROM events e JOIN others o"
    " ON e.id = o.id AND o.at BETWEEN e.ts AND e.ts + INTERVAL 1 HOUR;",
    "each row once": EVENTS
    + "CREATE SINK distinct_ WITH (type='delta', location='{root}/distinct') AS SELECT DISTINCT id, ts FROM events;",
    "all that there is": WHOLE
    + "CREATE SINK sites WITH (type='delta', location='{root}/sites') AS SELECT site, count(*) AS n FROM whole GROUP BY site;",
    "files": EVENTS + "CREATE SINK files WITH (type='parquet', location='{root}/files') AS SELECT id FROM events;",
}


def of_the_page() -> str:
    """The pipeline of docs/howto/pipelines.md."""
    page = (ROOT / "docs" / "howto" / "pipelines.md").read_text(encoding="utf-8")
    found = re.search(r'write_text\(f"""(.+?)"""\)', page, re.DOTALL)
    assert found is not None
    return found[1].replace("{lake}", "{root}")


def skeleton(text: str) -> str:
    """A plan's first line, and the operators, streams marked with ~: neither numbers, nor expressions, nor paths."""
    told, *plan = text.splitlines()
    lines = [match[0] for line in plan if (match := re.match(r"^[\s:+|-]*~?[A-Z]\w*", line))]
    return "\n".join([told, *(f"  {line}" for line in lines)])


@pytest.mark.filterwarnings("ignore:.*unclosed.*:ResourceWarning", "ignore:.*socket:pytest.PytestUnraisableExceptionWarning")
def test_plans_are_those_of_the_file(spark: Any, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "sites.csv").write_text("site,name\n", encoding="utf-8")
    spark.range(1).selectExpr("id", "timestamp'2026-01-05' AS ts", "'north' AS site", "1.0D AS ppm").write.parquet(
        f"{tmp_path}/landing"
    )
    found = []
    for name, sql in {"the page about pipelines": of_the_page(), **PIPELINES}.items():
        ready = gl.pipeline(sql=sql.format(root=tmp_path), name="p", checkpoints=str(tmp_path / "checkpoints"))
        found.append(f"-- {name}")
        for sink in ready.definitions.of(CreateSink):
            span = sink.statement.span
            request = Explain(query=None, name=sink.name, name_span=span, span=span)
            found.append(skeleton(explain(spark, ready.definitions, request)))
        found.append("")
    written = "\n".join(found)
    (tmp_path / "plans.txt").write_text(written, encoding="utf-8")
    assert written == GOLDEN.read_text(encoding="utf-8"), f"look at {tmp_path / 'plans.txt'}, and copy it where it is right"
