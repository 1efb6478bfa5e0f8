"""Records of HTTP services: each once, over a real server on this machine that fails in every way."""

from __future__ import annotations

import json
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from email.utils import format_datetime
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from gapless import connect
from gapless.connect import AfterValue, Cursor, LinkHeader, NextLink, Offset, PageNumber, PageToken, source
from gapless.connect.sources.http import HttpSource
from gapless.errors import (
    AccessDenied,
    DuplicateKey,
    GaplessError,
    InvalidOption,
    InvalidValue,
    ObjectNotFound,
    SchemaMismatch,
    StoreUnavailable,
    UnreadableInput,
)
from support.http_service import Answer, Service
from support.pipelines import SCHEMA, all_polled, made, opened, rows


@pytest.fixture
def service(http_service: Service) -> Service:
    return http_service


class Clock:
    """Counts what is slept."""

    def __init__(self) -> None:
        self.slept: list[float] = []

    def now_ns(self) -> int:
        return int(datetime(2026, 1, 5, tzinfo=UTC).timestamp()) * 10**9

    def monotonic(self) -> float:
        return 0.0

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)


def asking(service: Service, **options: Any) -> tuple[HttpSource, Clock]:
    """A source that does not sleep."""
    reader, clock = source(service.url, **options), Clock()
    assert isinstance(reader, HttpSource)
    reader._service.clock = clock
    return reader, clock


def answered(body: object, **headers: str) -> Answer:
    return 200, headers, json.dumps(body).encode()


def ids(polled: Any) -> list[int]:
    return [value for batch in polled for value in batch.column("id").to_pylist()]


drained = partial(all_polled, read=ids)


def resumed(reader: Any, service: Service, **options: Any) -> Any:
    other, _ = asking(service, **options)
    other.start(Cursor.from_json(reader.cursor.to_json()))
    return other


def numbered(*numbers: int) -> list[dict[str, int]]:
    return [{"id": number} for number in numbers]


@dataclass
class Pages:
    """A list of records that may grow, in pages of three, in every way of asking for them."""

    total: int

    def __call__(self, path: str, query: dict[str, str]) -> Answer:
        everything = list(range(1, self.total + 1))
        if "since" in query or path.endswith("after"):
            since = int(query.get("since", "0"))
            return answered({"data": {"items": numbered(*[one for one in everything if one > since][:3])}})
        counted = query.get("offset") or query.get("token") or 0
        first = 3 * (int(query["page"]) - 1) if "page" in query else int(counted)
        items, then = numbered(*everything[first : first + 3]), first + 3
        body: dict[str, Any] = {"data": {"items": items}, "meta": {}}
        if then < self.total:
            body["meta"] = {"token": str(then), "next": f"{path}?offset={then}"}
            return answered(body, Link=f'<{path}?offset={then}>; rel="next"')
        return answered(body)


WAYS: dict[str, Any] = {
    "after": AfterValue("since", "id"),
    "token": PageToken("token", "meta.token"),
    "next link": NextLink("meta.next"),
    "link header": LinkHeader(),
    "number": PageNumber(),
    "offset": Offset(limit=3),
}


@pytest.mark.parametrize("limit", [1, 4, None])
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("total", [0, 3, 7])
def test_all_ways_through_the_pages_give_each_row_once_and_those_that_come(
    service: Service, way: str, limit: int | None, total: int
) -> None:
    service.answer = Pages(total)
    service.url += "/after" if way == "after" else ""
    schema = pa.schema([("id", pa.int64())])
    reader, _ = asking(service, records="data.items", pagination=WAYS[way], schema=schema)
    assert drained(reader, limit) == list(range(1, total + 1))
    assert drained(reader, limit) == []
    service.answer = Pages(total + 4)
    assert drained(reader, limit) == list(range(total + 1, total + 5))


@pytest.mark.parametrize("way", WAYS)
def test_a_cursor_goes_on_at_the_very_row(service: Service, way: str) -> None:
    service.answer = Pages(8)
    service.url += "/after" if way == "after" else ""
    options = {"records": "data.items", "pagination": WAYS[way]}
    for taken in range(1, 9):
        first, _ = asking(service, **options)
        begun = ids(first.poll(taken))
        assert begun + drained(resumed(first, service, **options), 2) == list(range(1, 9))


def test_only_what_is_named_by_a_token_or_a_value_replays(service: Service, tmp_path: Path) -> None:
    for way, pagination in (*WAYS.items(), ("single", None)):
        reader, _ = asking(service, pagination=pagination)
        assert reader.capabilities.replays == (way in ("after", "token"))
    with pytest.raises(GaplessError, match="read again"):
        connect.Runner(
            source(service.url, pagination=PageNumber()),
            None,
            {"t": connect.sink(f"delta:{tmp_path / 't'}", pipeline="p", name="n", create={})},
            connect.CheckpointStore(tmp_path / "c"),
        ).run()


def test_a_pipeline_over_a_service_that_fails_has_each_row_once(service: Service, tmp_path: Path) -> None:
    everything = [{**row, "ts": row["ts"].isoformat()} for row in rows(0, 20).to_pylist()]

    def answer(_path: str, query: dict[str, str]) -> Answer:
        return answered([row for row in everything if row["v"] > int(query.get("since", -1))][:6])

    service.answer = answer
    made("delta", tmp_path / "t")
    found = 0
    lives: list[list[Answer]] = [
        [],
        [(500, {}, b"")],
        [(-1, {}, b""), (-2, {}, b"[]")],
        [(403, {}, b"")],
        [(200, {}, b'[{"v"')],
        [],
    ]
    for failures in lives:
        service.failures = list(failures)
        reader, _ = asking(service, pagination=AfterValue("since", "v"), schema=SCHEMA)
        sinks = {"t": connect.sink(f"delta:{tmp_path / 't'}", pipeline="p", name="n")}
        runner = connect.Runner(reader, None, sinks, connect.CheckpointStore(tmp_path / "c"), checkpoint_rows=4)
        if failures and failures[0][0] == 403:
            with pytest.raises(AccessDenied):
                runner.run(checkpoints=1)
        else:
            found += runner.run(checkpoints=1).rows
        reader.close()
    assert found == 20
    assert sorted(opened("delta", tmp_path / "t").scan().to_arrow()["v"].to_pylist()) == list(range(20))


@pytest.mark.parametrize(
    ("failure", "waits"),
    [
        ((500, {}, b""), None),
        ((429, {"Retry-After": "7"}, b""), [7.0]),
        ((503, {"Retry-After": format_datetime(datetime(2026, 1, 5, 0, 0, 9, tzinfo=UTC), usegmt=True)}, b""), [9.0]),
        ((503, {"Retry-After": "soon"}, b""), None),
        ((408, {}, b""), None),
        ((-1, {}, b""), None),
        ((-2, {}, b'[{"id": 1}]'), None),
        ((200, {}, b'[{"id": 1'), None),
        ((200, {}, b"<html>"), None),
    ],
)
def test_what_may_pass_is_asked_again(service: Service, failure: Answer, waits: list[float] | None) -> None:
    service.answer = lambda _path, _query: answered(numbered(1))
    service.failures = [failure]
    reader, clock = asking(service)
    assert ids(reader.poll()) == [1]
    assert len(clock.slept) == 1
    assert clock.slept == waits if waits else 0.2 <= clock.slept[0] <= 0.5


@pytest.mark.parametrize(
    ("failure", "kind"),
    [
        ((500, {}, b""), StoreUnavailable),
        ((-1, {}, b""), StoreUnavailable),
        ((200, {}, b"<html>"), UnreadableInput),
        ((200, {}, b'[{"id": 1, "id": 2}]'), UnreadableInput),
    ],
)
def test_what_does_not_pass_is_told_at_last(service: Service, failure: Answer, kind: type[GaplessError]) -> None:
    service.answer = lambda _path, _query: failure
    reader, clock = asking(service)
    with pytest.raises(kind):
        reader.poll()
    assert len(clock.slept) == 5
    assert clock.slept == sorted(clock.slept)


@pytest.mark.parametrize(
    ("answer", "kind", "match"),
    [
        ((401, {}, b""), AccessDenied, "401"),
        ((403, {}, b""), AccessDenied, "403"),
        ((404, {}, b""), ObjectNotFound, "404"),
        ((400, {}, b""), InvalidOption, "400"),
        ((302, {"Location": "https://elsewhere/x?key=hunter2"}, b""), InvalidOption, "https://elsewhere/x"),
        ((429, {"Retry-After": "3600"}, b""), StoreUnavailable, "wait 3600 s"),
        ((200, {}, b'{"items": []}'), UnreadableInput, "It has 'items'"),
        ((200, {}, b"7"), UnreadableInput, "no list of records"),
        ((200, {}, b"[7]"), UnreadableInput, "row 0"),
        ((200, {"Link": '<http://elsewhere/>; rel="next"'}, b"[]"), UnreadableInput, "http://elsewhere"),
    ],
)
def test_what_is_refused_is_told_at_once(service: Service, answer: Answer, kind: type[GaplessError], match: str) -> None:
    service.answer = lambda _path, _query: answer
    reader, clock = asking(service, pagination=LinkHeader(), headers={"X-Key": "hunter2"}, params={"token": "hunter2"})
    with pytest.raises(kind, match=match) as error:
        reader.poll()
    assert clock.slept == []
    assert "hunter2" not in f"{error.value} {error.value.facts}"


def test_what_is_no_json_is_shown_and_a_page_for_people_is_told_at_once(service: Service) -> None:
    service.answer = lambda _path, _query: (200, {"Content-Type": "text/html; charset=utf-8"}, b"<html>Log in" + b"x" * 1000)
    with pytest.raises(
        UnreadableInput, match=r"is text/html; charset=utf-8, and begins with '<html>Log in.*Check the URL"
    ) as caught:
        asking(service)[0].poll()
    assert len(str(caught.value)) < 500
    assert len(service.asked) == 1


@pytest.mark.parametrize("rows", [0, 1, 2])
def test_a_page_behind_the_last_one_that_is_not_there_is_the_end(service: Service, rows: int) -> None:
    """Django's REST framework answers so. What is asked for first is there, or that is an error."""
    everything = [[{"id": 1}, {"id": 2}], [{"id": 3}, {"id": 4}][:rows]]

    def answer(_path: str, query: dict[str, str]) -> Answer:
        number = int(query["page"])
        there = number <= 2 and everything[number - 1]
        return (200, {}, json.dumps(there).encode()) if there else (404, {}, b'{"detail": "Invalid page."}')

    service.answer = answer
    reader, _ = asking(service, pagination=PageNumber())
    for _ in range(2):
        assert [row["id"] for batch in reader.poll() for row in batch.to_pylist()] == (
            [1, 2, 3, 4][: 2 + rows] if _ == 0 else []
        )
    everything[1] = [{"id": 3}, {"id": 4}]
    assert [row["id"] for batch in reader.poll() for row in batch.to_pylist()] == [3, 4][rows:]
    service.answer = lambda _path, _query: (404, {}, b"")
    with pytest.raises(ObjectNotFound):
        reader.poll()


@pytest.mark.parametrize("url", ["http://", "https:///trips", "http://host:port/", "http:trips"])
def test_a_url_without_a_host_is_refused_before_anything_is_asked(url: str) -> None:
    with pytest.raises(InvalidOption, match="names no host"):
        source(url)


@pytest.mark.parametrize("value", [["a", "b"], None, True, {"a": 1}, b"x"])
def test_what_is_no_part_of_a_query_is_refused_and_not_written_as_python_would(service: Service, value: Any) -> None:
    with pytest.raises(InvalidOption, match="params= has 'kind' of"):
        asking(service, params={"kind": value})
    with pytest.raises(InvalidOption, match="params="):
        asking(service, params=[("kind", "a")])


def test_a_page_without_content_has_no_rows(service: Service) -> None:
    service.answer = lambda _path, _query: (204, {}, b"")
    reader, _ = asking(service, schema=pa.schema([("id", pa.int64())]))
    assert reader.poll().rows == 0


def test_a_service_that_gives_one_page_again_and_again_is_told(service: Service) -> None:
    service.answer = lambda _path, _query: answered({"items": numbered(1, 2), "next": "same"})
    for pagination in (PageNumber(), Offset(), PageToken("token", "next"), NextLink("next")):
        reader, _ = asking(service, records="items", pagination=pagination)
        assert ids(reader.poll()) == [1, 2]
        with pytest.raises(UnreadableInput, match="the same page again"):
            reader.poll()
    reader, _ = asking(service, records="items", pagination=AfterValue("since", "id"))
    assert ids(reader.poll()) == [1, 2]
    with pytest.raises((DuplicateKey, UnreadableInput), match="after 2"):
        reader.poll()


@pytest.mark.parametrize("records", [numbered(1, 1), numbered(2, 1), [{"id": None}], [{}], [{"id": 1.5}], [{"id": True}]])
def test_rows_that_are_not_asked_for_by_value_are_refused(service: Service, records: Any) -> None:
    service.answer = lambda _path, _query: answered(records)
    reader, _ = asking(service, pagination=AfterValue("since", "id"))
    with pytest.raises((DuplicateKey, UnreadableInput)):
        reader.poll()


def test_a_page_that_is_answered_otherwise_when_it_is_asked_for_again_is_told(service: Service) -> None:
    service.answer = lambda _path, _query: answered(numbered(1, 2, 3))
    options = {"pagination": PageToken("token", "next")}
    reader, _ = asking(service, **options)
    assert ids(reader.poll(2)) == [1, 2]
    for changed in (numbered(0, 1, 2), numbered(1)):
        service.answer = partial(lambda changed, _path, _query: answered(changed), changed)
        with pytest.raises(UnreadableInput, match="of which 2 rows were read"):
            resumed(reader, service, **options).poll()
    service.answer = lambda _path, _query: answered(numbered(1, 2, 3))
    assert ids(resumed(reader, service, **options).poll()) == [3]


def test_records_are_typed_by_the_schema(service: Service) -> None:
    body = b'[{"id": 1, "at": "2026-01-05T01:00:00+01:00", "price": 1234567890123456789.05, "tags": ["a"]}]'
    service.answer = lambda _path, _query: (200, {}, body)
    fields = [
        ("id", pa.int32()),
        ("at", pa.timestamp("ms", "UTC")),
        ("price", pa.decimal128(30, 2)),
        ("tags", pa.list_(pa.string())),
    ]
    reader, _ = asking(service, schema=pa.schema(fields))
    expected = {"id": 1, "at": datetime(2026, 1, 5, tzinfo=UTC), "price": Decimal("1234567890123456789.05"), "tags": ["a"]}
    assert [row for batch in reader.poll() for row in batch.to_pylist()] == [expected]
    bare, _ = asking(service)
    assert [str(one) for one in bare.schema.types] == ["int64", "string", "double", "list<item: string>"]
    narrow, _ = asking(service, schema=pa.schema([("id", pa.int64())]))
    with pytest.raises(SchemaMismatch, match="at: is not known"):
        narrow.poll()
    service.answer = lambda _path, _query: answered([{"id": 2**40}])
    with pytest.raises(InvalidValue, match=str(2**40)):
        asking(service, schema=pa.schema([("id", pa.int32())]))[0].poll()


def test_what_is_sent_is_what_was_passed_and_no_secret_is_shown(service: Service) -> None:
    service.answer = Pages(5)
    service.url += "?fixed=1"
    reader, _ = asking(
        service,
        records="data.items",
        pagination=NextLink("meta.next"),
        params={"key": "hunter2"},
        headers={"Authorization": "Bearer hunter3"},
    )
    assert drained(reader) == [1, 2, 3, 4, 5]
    assert service.asked[0][1] == {"fixed": "1", "key": "hunter2"}
    assert all(headers["Authorization"] == "Bearer hunter3" for _, _, headers in service.asked)
    shown = (repr(reader), str(vars(reader)), reader.cursor.to_json())
    assert not any("hunter" in one for one in shown)


def test_what_cannot_be_is_refused_with_its_name(service: Service) -> None:
    wrong: tuple[tuple[str, Any], ...] = (
        ("pagination", "next"),
        ("start", 7),
        ("timeout_s", 0),
        ("timeout_s", True),
        ("retries", 3),
        ("until", 3),
    )
    for name, value in wrong:
        with pytest.raises(InvalidOption, match=name):
            source(service.url, **{name: value})
    with pytest.raises(InvalidOption, match=r"header= .*Did you mean 'headers'") as error:
        source(service.url, header={"Authorization": "Bearer hunter2"})
    assert "hunter2" not in f"{error.value} {error.value.facts}"
    with pytest.raises(InvalidOption, match="headers"):
        source(service.url, headers={"X": 7}).poll()
    reader, _ = asking(service, pagination=AfterValue("since", "id"), start=5)
    assert reader.cursor.state["page"] == 5
    broken: tuple[dict[str, Any], ...] = ({"page": []}, {"row": -1}, {"row": "1"}, {"digest": 7})
    for change in broken:
        with pytest.raises(InvalidOption, match="cannot start"):
            reader.start(Cursor(source="http", state={**reader.cursor.state, **change}))
    dead = source("http://127.0.0.1:9/x")
    assert isinstance(dead, HttpSource)
    with closing(dead):
        dead._service.clock = Clock()
        with pytest.raises(StoreUnavailable, match="gave no answer"):
            dead.poll()
