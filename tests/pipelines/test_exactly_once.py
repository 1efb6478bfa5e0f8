"""What a pipeline refuses before its first row, because a sink would have rows twice or lack some after a kill."""

from __future__ import annotations

import pytest

import gapless as gl
from gapless.errors import InvalidOption, SinkCannotDedup, SourceCannotReplay
from gapless.pipelines.run.plan import check_exactly_once

PAGES = "CREATE SOURCE pages (id BIGINT) WITH (type='http', url='http://h/', pagination='{pagination}'{more});"
TOPIC = "CREATE SOURCE s WITH (type='rate'); CREATE SINK out WITH (type='kafka', bootstrap_servers='h:1', topic='t'{more}) AS SELECT * FROM s;"
INTO_DELTA = "CREATE VIEW v AS SELECT * FROM pages; CREATE SINK d FROM v INTO DELTA (location='/tmp/d');"
ON_CONSOLE = "CREATE SINK c WITH (type='console') AS SELECT * FROM pages;"


def check(sql: str) -> None:
    check_exactly_once(gl.pipeline(sql=sql, name="p").definitions)


@pytest.mark.parametrize("pagination", ["none", "next_link", "link_header", "page_number", "offset"])
def test_pages_by_their_place_are_not_followed_into_a_table(pagination: str) -> None:
    source = PAGES.format(pagination=pagination, more="{more}")
    with pytest.raises(SourceCannotReplay, match=f"'pages' cannot be gone on with: pagination='{pagination}'"):
        check(source.format(more="") + INTO_DELTA)
    check(source.format(more=", mode='batch'") + INTO_DELTA)
    check(source.format(more="") + ON_CONSOLE)


@pytest.mark.parametrize(
    ("pagination", "more"), [("after_value", ", parameter='a', column='id'"), ("page_token", ", parameter='a', path='next'")]
)
def test_pages_by_a_value_or_a_token_are(pagination: str, more: str) -> None:
    check(PAGES.format(pagination=pagination, more=more) + INTO_DELTA)
    with pytest.raises(InvalidOption, match="needs parameter="):
        check(PAGES.format(pagination=pagination, more="") + INTO_DELTA)


def test_a_topic_has_records_once_or_more_and_who_takes_that_says_it() -> None:
    for more in ("", ", delivery='exactly_once'"):
        with pytest.raises(SinkCannotDedup, match="Say delivery='at_least_once'") as refused:
            check(TOPIC.format(more=more))
        assert refused.value.code == "sink-cannot-dedup"
    check(TOPIC.format(more=", delivery='at_least_once'"))
    check("CREATE SOURCE s WITH (type='rate'); CREATE SINK c WITH (type='console') AS SELECT * FROM s;")
