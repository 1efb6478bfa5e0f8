"""What is counted in this process: exact with threads, from zero in a forked child, without secrets, and nothing before it is asked for."""

from __future__ import annotations

import os
import pickle
import threading
from pathlib import Path

import pytest

import gapless as gl
from gapless.runtime.metrics import COMMITS, COUNTS, INSTRUMENTS, RETRIES, SOURCE_LAG, without_secrets
from support.counted import counted, counting
from support.pipelines import KINDS, made, rows


def test_nothing_is_counted_before_it_is_asked_for_and_nothing_is_left_after() -> None:
    gl.metrics.disable()
    COMMITS.add(1, "delta", "append", "t")
    SOURCE_LAG.set(1, "delta", "t")
    assert gl.metrics.read() == ()
    with counting():
        COMMITS.add(1, "delta", "append", "t")
        assert counted("gapless.commits") == 1
    assert gl.metrics.read() == ()


def test_counters_leave_the_table_out_unless_it_is_asked_for_and_gauges_name_it() -> None:
    with counting():
        for place in ("a", "b"):
            COMMITS.add(1, "delta", "append", place)
            SOURCE_LAG.set(3, "delta", place)
        found = [(one.instrument.name, dict(one.attributes), one.value) for one in gl.metrics.read()]
        assert found == [
            ("gapless.commits", {"kind": "delta", "operation": "append"}, 2),
            ("gapless.source.lag", {"source": "delta", "table": "a"}, 3),
            ("gapless.source.lag", {"source": "delta", "table": "b"}, 3),
        ]
    with counting(tables=True):
        for place in ("a", "b", "b"):
            COMMITS.add(1, "delta", "append", place)
        assert (counted("gapless.commits", table="a"), counted("gapless.commits", table="b")) == (1, 2)


def test_a_table_that_is_asked_for_later_is_empty_for_what_was_before() -> None:
    with counting():
        COMMITS.add(2, "delta", "append", "a")
        gl.metrics.enable(tables=True)
        COMMITS.add(1, "delta", "append", "a")
        assert [(one.attributes["table"], one.value) for one in gl.metrics.read()] == [("", 2), ("a", 1)]


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("s3://bucket/trips", "s3://bucket/trips"),
        ("https://key:secret@host:9000/bucket/trips", "https://host:9000/bucket/trips"),
        ("az://account/container?sig=secret", "az://account/container"),
        ("https://host/t?X-Amz-Signature=secret#secret", "https://host/t"),
        ("memory://t", "memory://t"),
        ("/data/what?/a@b#c", "/data/what?/a@b#c"),
        ("http://[broken/t?secret", "http://[broken/t"),
    ],
)
def test_what_gives_access_is_no_label(url: str, told: str) -> None:
    assert without_secrets(url) == told
    with counting(tables=True):
        RETRIES.add(1, "race", url)
        SOURCE_LAG.set(1, "kafka", url)
        assert {one.attributes["table"] for one in gl.metrics.read()} == {told}


def test_counts_of_many_threads_are_exact() -> None:
    with counting():

        def work() -> None:
            for _ in range(2_000):
                COMMITS.add(1, "delta", "append", "t")

        threads = [threading.Thread(target=work) for _ in range(8)]
        for one in threads:
            one.start()
        for one in threads:
            one.join()
        assert counted("gapless.commits") == 16_000


def test_a_forked_child_counts_its_own_from_zero_though_its_parent_was_counting() -> None:
    with counting():
        COMMITS.add(5, "delta", "append", "t")
        reader, writer = os.pipe()
        with COUNTS._lock:  # as if another thread was counting just then
            child = os.fork()
            if child == 0:
                COMMITS.add(2, "delta", "append", "t")
                os.write(writer, b"%d" % counted("gapless.commits"))
                os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        assert os.read(reader, 10) == b"2"
        assert counted("gapless.commits") == 5
        os.close(reader)
        os.close(writer)


@pytest.mark.parametrize("kind", KINDS)
def test_tables_are_pickled_as_ever_while_they_are_counted(kind: str, tmp_path: Path) -> None:
    with counting():
        table = pickle.loads(pickle.dumps(made(kind, tmp_path)))
        table.append(rows(0, 3))
        assert counted("gapless.rows.written") == 3


def test_names_are_by_the_rules_of_opentelemetry_and_prometheus_and_differ() -> None:
    for one in INSTRUMENTS:
        assert one.name.startswith("gapless.")
        assert one.name.replace(".", "").isalpha()
        assert one.unit == "By" or (one.unit.startswith("{") and one.unit.endswith("}"))
        assert one.attributes[-1] == "table"
        assert one.description.endswith(".")
        assert one.prometheus_name.endswith("_total") == (one.kind == "counter")
    for names in ([one.name for one in INSTRUMENTS], [one.prometheus_name for one in INSTRUMENTS]):
        assert len(set(names)) == len(names)
