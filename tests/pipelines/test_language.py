"""The language of pipelines: what a text says, and where it says what it cannot."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gapless.errors import GaplessError, InvalidPipeline
from gapless.pipelines.definitions import read_pipeline, shown
from gapless.pipelines.language.parser import parse_pipeline
from gapless.pipelines.language.statements import CreateSink, CreateSource, CreateView, ShowCreate
from gapless.pipelines.language.text import Span, SqlText
from gapless.pipelines.language.tokens import tokenize

WHOLE = """-- orders of the last hours; a comment with 'quotes
CREATE SOURCE orders (
  id BIGINT NOT NULL, amount DECIMAL(10, 2), tags ARRAY<STRUCT<a: INT, b: STRING>> COMMENT 'it''s; one',
  order_time TIMESTAMP, WATERMARK FOR order_time AS order_time - INTERVAL '10 seconds'
) WITH (type = 'kafka', bootstrap_servers = 'localhost:9092', topic = 'orders', kafka.sasl.password = 'hunter2', poll_interval = 10 seconds);
CREATE OR REPLACE VIEW big AS
  WITH x AS (SELECT * FROM orders) SELECT /*+ BROADCAST(x) */ id, 'a;b' AS `c d` FROM x WHERE amount > 100 /* ; */;
CREATE SINK hourly WITH (type='delta', location='${env:LAKE}/hourly') AS
  SELECT window(order_time, '1 hour') AS w, count(*) AS n FROM big, orders GROUP BY 1;
CREATE SINK IF NOT EXISTS copy FROM orders INTO DELTA (location = '/lake/copy');
CREATE LOOKUP TABLE customers (id BIGINT, name STRING, PRIMARY KEY (id)) WITH (type='csv', location='/c.csv', ttl='10 minutes');
"""


def look_up(kind: str, name: str) -> str | None:
    return {("env", "LAKE"): "/lake"}.get((kind, name))


def test_a_pipeline_says_what_is_defined_and_who_reads_what() -> None:
    pipeline = read_pipeline(WHOLE, "orders.sql", look_up)
    assert [one.name for one in pipeline.of(CreateSource)] == ["orders"]
    assert [one.name for one in pipeline.of(CreateSink)] == ["hourly", "copy"]
    hourly = pipeline.defined["hourly"]
    assert hourly.options["location"] == "/lake/hourly"
    assert isinstance(hourly.statement, CreateSink)
    assert [one.name for one in pipeline.read_by(hourly.statement.query)] == ["orders", "big"]
    source = pipeline.defined["orders"].statement
    assert isinstance(source, CreateSource)
    assert [(one.name, one.type, one.not_null) for one in source.columns] == [
        ("id", "BIGINT", True),
        ("amount", "DECIMAL(10, 2)", False),
        ("tags", "ARRAY<STRUCT<a: INT, b: STRING>>", False),
        ("order_time", "TIMESTAMP", False),
    ]
    assert source.watermark is not None
    assert (source.watermark.column, source.watermark.delay) == ("order_time", "10 seconds")
    view = pipeline.defined["big"].statement
    assert isinstance(view, CreateView)
    assert view.query.sql.endswith("'a;b' AS `c d` FROM x WHERE amount > 100")


def test_show_create_gives_a_statement_that_defines_the_same_and_no_secret() -> None:
    text = WHOLE.replace("'hunter2'", "'${env:LAKE}'")
    asked = "".join(
        f"SHOW CREATE {kind} {name};" for kind, name in [("SOURCE", "orders"), ("SINK", "hourly"), ("SINK", "copy")]
    )
    asked += "SHOW CREATE VIEW big; SHOW CREATE LOOKUP TABLE customers"
    pipeline = read_pipeline(text + asked, "a.sql", look_up)
    statements = {
        request.name: shown(request, then)[0]["statement"]
        for request, then in pipeline.requests
        if isinstance(request, ShowCreate)
    }
    again = read_pipeline(
        "\n".join(statements[name] for name in ("orders", "big", "hourly", "copy", "customers")), "b.sql", look_up
    )
    asked_again = read_pipeline(again.sql.text + asked, "c.sql", look_up)
    assert {
        request.name: shown(request, then)[0]["statement"]
        for request, then in asked_again.requests
        if isinstance(request, ShowCreate)
    } == statements
    assert {name: one.options for name, one in again.defined.items()} == {
        name: one.options for name, one in pipeline.defined.items()
    }
    masked = read_pipeline(WHOLE + "SHOW CREATE SOURCE orders", "a.sql", look_up)
    request, then = masked.requests[0]
    assert isinstance(request, ShowCreate)
    statement = shown(request, then)[0]["statement"]
    assert "hunter2" not in statement + repr(masked)
    assert "'***'" in statement


@pytest.mark.parametrize(
    ("text", "line", "column", "said"),
    [
        ("CREATE SORCE x", 1, 8, "Did you mean 'SOURCE'?"),
        ("\n  CREATE SOURCE x (a INT, b INTT) WITH (type='rate')", 2, 29, "Did you mean 'INT'?"),
        ("SELECT 1", 1, 1, "stands where a statement"),
        ("CREATE SOURCE s (a INT, WATERMARK FOR b AS b) WITH (type='rate')", 1, 18, "there is no column 'b'"),
        ("CREATE SOURCE s (a INT, WATERMARK FOR a AS a - INTERVAL 5 PARSECS) WITH (type='rate')", 1, 57, "is no delay"),
        ("CREATE SOURCE s WITH (type='rate, b=2)", 1, 28, "has no end"),
        ("CREATE SOURCE s WITH (type='rate', type='rate')", 1, 36, "given twice"),
        ("CREATE SOURCE s WITH (type='rate', rows_per_secnd=3)", 1, 36, "Did you mean 'rows_per_second'?"),
        ("CREATE SOURCE s WITH (type='rate', rows_per_second=0)", 1, 52, "a whole number from 1"),
        ("CREATE SOURCE s WITH (type='rate', poll_interval='10 parsecs')", 1, 50, "no length of time"),
        ("CREATE SOURCE s WITH (type='rat')", 1, 28, "Did you mean 'rate'?"),
        ("CREATE SOURCE s WITH (rows_per_second=1)", 1, 15, "has no type"),
        ("CREATE SOURCE s WITH (type='delta')", 1, 15, "lacks the option 'location'"),
        ("CREATE SOURCE s WITH (type='rate'); CREATE VIEW v AS SELECT * FROM t", 1, 68, "there is no source or view 't'"),
        ("CREATE SOURCE s WITH (type='rate'); CREATE VIEW S AS SELECT 1", 1, 49, "the name 'S' is taken"),
        ("CREATE SINK k WITH (type='console') AS SELECT 1; CREATE VIEW v AS SELECT * FROM k", 1, 81, "is a sink"),
        ("CREATE VIEW a AS SELECT 1; CREATE VIEW b AS SELECT * FROM a; DROP VIEW a", 1, 72, "is read by the view 'b'"),
        ("CREATE OR REPLACE VIEW IF NOT EXISTS a AS SELECT 1", 1, 8, "do not go together"),
        ("CREATE LOOKUP TABLE l (a INT) WITH (type='csv', location='x')", 1, 21, "has no PRIMARY KEY"),
        ("CREATE VIEW v AS INSERT INTO x SELECT 1", 1, 18, "stands where a query must"),
        ("SHOW SORCES", 1, 6, "Did you mean 'SOURCES'?"),
        ("DROP SINK x", 1, 11, "there is no sink 'x'"),
    ],
)
def test_what_cannot_be_is_said_with_its_place(text: str, line: int, column: int, said: str) -> None:
    with pytest.raises(InvalidPipeline) as caught:
        read_pipeline(text, "a.sql", look_up)
    error = caught.value
    assert (error.line, error.column) == (line, column)
    assert str(error).startswith(f"a.sql:{line}:{column}: ")
    assert said in str(error)
    shown_line, carets = error.excerpt.split("\n")
    assert shown_line.endswith(text.split("\n")[line - 1])
    assert carets.index("^") - shown_line.index(text.split("\n")[line - 1]) == column - 1


def test_the_caret_stands_right_in_long_lines_and_behind_tabs() -> None:
    text = "CREATE\tSINK k WITH (type='console') AS SELECT " + ", ".join(f"c{one}" for one in range(200)) + " FROM nowhere"
    with pytest.raises(InvalidPipeline) as caught:
        read_pipeline(text, "a.sql", look_up)
    above, below = caught.value.excerpt.split("\n")
    assert above[below.index("^") :].startswith("nowhere")
    assert below.rstrip().endswith("^" * 7)
    with pytest.raises(InvalidPipeline) as caught:
        read_pipeline("CREATE\tSORCE x", "a.sql", look_up)
    assert "\t^" in caught.value.excerpt


@pytest.mark.parametrize(
    ("written", "said"),
    [
        (r"'a\'b'", "a'b"),
        ("'it''s'", "it's"),
        (r"'a\nb\\'", "a\nb\\"),
        (r"r'a\nb'", r"a\nb"),
        (r'"say ""x"""', 'say "x"'),
        (r"'A\U0001F600'", "A😀"),
        (r"'100\%'", r"100\%"),
        ("'-- no comment'", "-- no comment"),
    ],
)
def test_strings_say_what_they_say_in_spark(written: str, said: str) -> None:
    assert [(one.kind, one.text) for one in tokenize(SqlText(written))] == [("string", said), ("end", "")]


SINKS = """CREATE SOURCE s WITH (type='rate');
CREATE SINK air WITH (type='timeseries', location='/air') AS SELECT * FROM s;
CREATE SINK copy WITH (type='delta', location='/copy') AS SELECT * FROM s;
"""


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ("BACKFILL copy FROM '2026-01-05' TO '2026-01-06'", "it is a delta sink"),
        ("BACKFILL aire FROM '2026-01-05' TO '2026-01-06'", "Did you mean 'air'?"),
        ("BACKFILL s FROM '2026-01-05' TO '2026-01-06'", "there is no sink 's' to be filled"),
        ("BACKFILL air FROM '2026-01-05' TO '2026-01-06'; DROP SINK air", "there is no sink 'air' to be filled"),
        ("BACKFILL air FROM '2026-01-05'", "TO"),
    ],
)
def test_only_a_time_series_sink_has_gaps_to_be_filled(more: str, said: str) -> None:
    with pytest.raises(InvalidPipeline) as caught:
        read_pipeline(SINKS + more, "a.sql", look_up)
    assert said in str(caught.value)
    assert caught.value.line == 4


_WORDS = st.sampled_from(
    [
        "CREATE",
        "OR",
        "REPLACE",
        "SOURCE",
        "SINK",
        "VIEW",
        "LOOKUP",
        "TABLE",
        "IF",
        "NOT",
        "EXISTS",
        "WITH",
        "AS",
        "SELECT",
        "FROM",
        "(",
        ")",
        ",",
        ";",
        "=",
        "'",
        '"',
        "`",
        "--",
        "/*",
        "*/",
        "type",
        "'rate'",
        "a",
        "b",
        "*",
        "1",
        "-3",
        "1e9",
        "WATERMARK",
        "FOR",
        "INTERVAL",
        "PRIMARY",
        "KEY",
        "SHOW",
        "DROP",
        "EXPLAIN",
        "SUBSCRIBE",
        "TO",
        "BACKFILL",
        "INT",
        "ARRAY",
        "<",
        ">",
        "128MB",
        "10",
        "seconds",
        "${env:LAKE}",
        "\\",
        "\x00",
        "é",
        "😀",
        "\t",
        "\n",
    ]
)


@settings(max_examples=400, deadline=None)
@given(st.lists(_WORDS, max_size=40), st.integers(0, len(WHOLE)), st.integers(0, 60))
def test_no_text_gives_anything_but_a_pipeline_or_an_error_of_ours(words: list[str], at: int, cut: int) -> None:
    for text in (" ".join(words), WHOLE[:at] + " ".join(words) + WHOLE[at + cut :]):
        with contextlib.suppress(GaplessError):
            for statement in parse_pipeline(text):
                assert 0 <= statement.span.start <= statement.span.end <= len(text)
            read_pipeline(text, "a.sql", look_up)


def test_places_are_counted_from_one() -> None:
    sql = SqlText("a\nbcd")
    assert (sql.place(Span(0, 1)), sql.place(Span(3, 4))) == ((1, 1), (2, 2))
