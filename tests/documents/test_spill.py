"""What a stage holds beyond its memory lies in a file: the same answers, in the same order, in bounded memory."""

from __future__ import annotations

import errno
import json
import os
import random
import subprocess
import sys
from collections.abc import Iterator
from io import BytesIO
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, BinaryIO

import pytest
from bson import json_util
from bson.decimal128 import Decimal128

import gapless as gl
from gapless.documents.aggregation.parse import parse_pipeline
from gapless.documents.aggregation.stages import Running, run
from gapless.documents.filters.match import holds
from gapless.documents.filters.tree import Condition
from gapless.documents.find.sort import order_key, parse_sort, sort_bytes
from gapless.documents.spill.memory import UNBOUNDED, Memory
from gapless.documents.spill.sorter import Sorter
from gapless.documents.spill.spool import Spool
from gapless.documents.values.codec import decode_document, encode_document
from gapless.documents.values.order import MISSING, sort_key
from gapless.documents.values.order_bytes import order_bytes, reversed_bytes
from gapless.errors import CallError, DataError, InvalidOption, StorageFull
from support.golden_pipelines import COLLECTIONS, PLACE
from support.random_documents import any_value, document, value
from support.random_pipelines import pipeline as random_pipeline
from support.typed_values import typed

GOLDEN: list[dict[str, Any]] = json_util.loads(
    PLACE.read_text(encoding="utf-8"),
    json_options=json_util.JSONOptions(json_mode=json_util.JSONMode.CANONICAL, tz_aware=False, uuid_representation=4),
)
STORED = {name: [decode_document(encode_document(one)) for one in found] for name, found in COLLECTIONS.items()}
PROBE = Path(__file__).with_name("memory_probe.py")


class Files:
    """Temporary files that are counted."""

    def __init__(self) -> None:
        self.made: list[BinaryIO] = []

    def __call__(self) -> BinaryIO:
        self.made.append(TemporaryFile())  # noqa: SIM115  # whoever asks for it closes it
        return self.made[-1]

    @property
    def open(self) -> int:
        """Those that were not closed."""
        return sum(not one.closed for one in self.made)


def read(name: str, condition: Condition) -> Iterator[dict[str, Any]]:
    return (one for one in STORED[name] if holds(condition, one))


def made(pipeline: Any, documents: list[dict[str, Any]], **memory: Any) -> list[dict[str, Any]]:
    at = Running(read=read, draw=random.Random(1).random, memory=Memory(**memory) if memory else UNBOUNDED)
    return list(run(parse_pipeline(pipeline), iter(documents), at))


# -- the order as bytes ------------------------------------------------------------------------------------------------

EDGES: list[Any] = [
    *(number * sign for number in (0, 1, 2**31, 2**53, 2**53 + 1, 2**62 + 1, 2**63 - 1) for sign in (1, -1)),
    *(number * sign for number in (0.0, 0.1, 5e-324, 2.0**53, 1.7976931348623157e308, float("inf")) for sign in (1, -1)),
    float("nan"),
    *(
        Decimal128(sign + text)
        for text in ("0", "0.1", "0.10", "1E-6176", "1E-400", "1E+309", "9.99E+6144", "1.7976931348623157E+308",
                     "1.7976931348623158E+308", "1.797693134862315808E+308", "9007199254740993", "Infinity", "5E-324")
        for sign in ("", "-")
    ),
    "", "a", "a\0", "a\0b", "a\1", "b", "\U0001f600", "\uffff", [], [[]], [1], [1, 1], [None], {}, {"": 1}, {"a": 1},
    {"a": 1, "b": 1}, {"a\0": 1}, {"a": "x"}, b"", b"a", MISSING, None,
]  # fmt: skip


def test_bytes_compare_as_values_do() -> None:
    chance = random.Random(9)
    values = [*EDGES, *(any_value(chance) for _ in range(1_000)), *(value(chance) for _ in range(1_000))]
    keys = [sort_key(one) for one in values]
    pairs = [(chance.choice(keys), chance.choice(keys)) for _ in range(60_000)]
    some = list(map(sort_key, EDGES))
    pairs += [(one, other) for one in some for other in some] + list(pairwise(sorted(keys)))
    for one, other in pairs:
        ours, theirs = order_bytes(one), order_bytes(other)
        assert (ours < theirs, ours == theirs) == (one < other, one == other), (one, other)
        assert (reversed_bytes(ours) < reversed_bytes(theirs)) == (other < one), (one, other)
        # Several in a row compare one by one, so that none begins another.
        assert ours == theirs or not theirs.startswith(ours)


def test_bytes_of_documents_compare_as_their_orders_do() -> None:
    chance = random.Random(10)
    found = [document(chance, at) for at in range(400)]
    for given in ([("a", 1)], [("a", -1)], [("a", 1), ("b", -1)], [("b.a", -1), ("a", 1), ("_id", -1)]):
        by = parse_sort(given)
        in_order = sorted(found, key=lambda one: order_key(one, by))
        assert sorted(found, key=lambda one: sort_bytes(one, by)) == in_order


# -- the same answers --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("limit", [1, 2_000, 20_000])
def test_every_pipeline_gives_the_same_with_little_memory(limit: int) -> None:
    files = Files()
    for case in GOLDEN:
        documents = STORED[case["collection"]]
        try:
            wanted = made(case["pipeline"], documents)
        except (CallError, DataError) as error:
            with pytest.raises(type(error)):
                made(case["pipeline"], documents, limit=limit, open=files)
            continue
        found = made(case["pipeline"], documents, limit=limit, open=files)
        assert typed(found) == typed(wanted), case["pipeline"]
    assert len(files.made) > (50 if limit < 20_000 else -1)
    assert files.open == 0


@pytest.mark.parametrize("seed", [1, *(pytest.param(one, marks=pytest.mark.soak) for one in range(2, 30))])
def test_random_pipelines_give_the_same_with_little_memory(seed: int) -> None:
    chance, files = random.Random(seed), Files()
    documents = [decode_document(encode_document(document(chance, at))) for at in range(300)]
    for _ in range(40):
        asked = random_pipeline(chance)
        try:
            wanted = made(asked, documents)
        except DataError:
            continue
        found = made(asked, documents, limit=chance.choice([1, 3_000, 30_000]), open=files)
        assert typed(found) == typed(wanted), asked
    assert len(files.made) > 20
    assert files.open == 0


STAGES: list[dict[str, Any]] = [
    {"$group": {"_id": "$a", "n": {"$sum": 1}, "first": {"$first": "$$ROOT"}, "all": {"$push": "$b"}, "set": {"$addToSet": "$b"}}},
    {"$group": {"_id": {"a": "$a"}, "few": {"$topN": {"n": 3, "sortBy": {"b": -1}, "output": "$$ROOT"}}, "low": {"$min": "$b"}}},
    {"$group": {"_id": {"$type": "$a"}, "all": {"$push": "$$ROOT"}, "last": {"$lastN": {"input": "$a", "n": 4}}, "d": {"$stdDevPop": "$_id"}}},
    {"$sortByCount": "$b"},
    {"$bucketAuto": {"groupBy": "$a", "buckets": 7, "output": {"n": {"$sum": 1}, "all": {"$push": "$_id"}}}},
    {"$facet": {"a": [{"$sort": {"b": 1, "_id": 1}}], "b": [{"$group": {"_id": "$a"}}]}},
    {"$setWindowFields": {"partitionBy": {"$type": "$a"}, "sortBy": {"b": 1}, "output": {
        "r": {"$rank": {}}, "s": {"$push": "$_id", "window": {"documents": [-2, 2]}}, "p": {"$shift": {"output": "$b", "by": 1}}}}},
    {"$lookup": {"from": "theirs", "let": {"a": "$a"}, "pipeline": [{"$match": {"$expr": {"$eq": ["$b", "$$a"]}}}], "as": "x"}},
    {"$lookup": {"from": "theirs", "let": {"a": "$_id"}, "pipeline": [{"$match": {"$expr": {"$lt": ["$_id", "$$a"]}}}, {"$limit": 3}],
                 "as": "x"}},
    {"$lookup": {"from": "theirs", "localField": "a", "foreignField": "b", "as": "x"}},
]  # fmt: skip


@pytest.mark.parametrize("stage", STAGES, ids=lambda one: next(iter(one)))
def test_every_stage_that_holds_documents_gives_the_same(stage: dict[str, Any]) -> None:
    chance, files = random.Random(21), Files()
    documents = [decode_document(encode_document({**document(chance, at), "c": any_value(chance)})) for at in range(500)]
    STORED["theirs"] = [decode_document(encode_document(document(chance, at))) for at in range(60)]
    wanted = typed(made([stage], documents))
    for limit in (1, 5_000, 60_000):
        assert typed(made([stage], documents, limit=limit, open=files)) == wanted
    assert "localField" in str(stage) or len(files.made) > 1
    assert files.open == 0


def test_a_limit_after_a_sort_is_cut_from_each_run() -> None:
    chance, files = random.Random(22), Files()
    rows = [{"_id": at, "v": chance.randrange(50)} for at in range(9_000)]
    for way in (1, -1):
        whole = made([{"$sort": {"v": way}}], rows)
        for most in (5, 1_500, 8_999):
            cut = made([{"$sort": {"v": way}}, {"$limit": most}], rows, limit=60_000, open=files)
            assert cut == whole[:most]
    assert files.open == 0
    assert len(files.made) == 4


def test_many_runs_are_merged_by_and_by() -> None:
    chance, files = random.Random(23), Files()
    keys = [chance.randbytes(2) for _ in range(3_000)]
    with Sorter(Memory(limit=1, open=files)) as sorter:
        for at, key in enumerate(keys):
            sorter.add(key, at)
        assert [(key, at) for key, at in sorter] == sorted(zip(keys, range(3_000), strict=True), key=lambda one: one[0])
    assert (len(files.made), files.open) == (1, 0)


def test_what_is_left_half_way_leaves_no_file() -> None:
    files = Files()
    at = Running(read=read, draw=random.Random(1).random, memory=Memory(limit=100, open=files))
    rows = ({"_id": number, "v": -number} for number in range(200))
    pipeline = [
        {"$sort": {"v": 1}},
        {"$group": {"_id": "$v", "n": {"$sum": 1}}},
        {"$bucketAuto": {"groupBy": "$_id", "buckets": 9}},
    ]
    found = run(parse_pipeline(pipeline), rows, at)
    assert next(found)["_id"]["min"] == -199
    assert files.open > 0
    del found
    assert files.open == 0


def test_a_full_disk_is_an_error_that_says_so() -> None:
    class Full(BytesIO):
        def write(self, data: Any) -> int:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    stages: list[dict[str, Any]] = [{"$sort": {"_id": 1}}, {"$group": {"_id": "$_id"}}, {"$facet": {"a": []}}]
    for stage in stages:
        with pytest.raises(StorageFull, match="memory_limit"):
            made([stage], [{"_id": at} for at in range(50)], limit=100, open=Full)


def test_a_spool_is_gone_through_as_often_as_is_wanted() -> None:
    with Spool(Memory(limit=500, open=BytesIO)) as spool:
        for number in range(100):
            spool.add({"n": number})
        assert (len(spool), spool.spilled) == (100, True)
        for one, other in zip(spool, spool, strict=True):
            assert one == other
        assert [one["n"] for one in spool] == list(range(100))


# -- of a collection ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("limit", [0, 999_999, True, "1GB", 1e9])
def test_a_limit_is_a_number_of_bytes(limit: Any) -> None:
    with pytest.raises(InvalidOption, match="memory_limit"):
        gl.documents.collection("memory://limited", memory_limit=limit)


def probe(job: str, place: Path, number: int) -> dict[str, Any]:
    made = subprocess.run(
        [sys.executable, str(PROBE), job, str(place), str(number)],
        check=True,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONHASHSEED": "0"},
    )
    found: dict[str, Any] = json.loads(made.stdout or "{}")
    return found


def test_stages_stay_within_their_memory(tmp_path: Path) -> None:
    place, count, limit = tmp_path / "many", 300_000, 5_000_000
    probe("make", place, count)
    floor = probe("read", place, limit)["mb"]
    # The test can fail: with memory enough it is taken.
    held = probe("sort", place, 1 << 40)
    assert held["mb"] > floor + 45
    for job, found in (("sort", count), ("group", None), ("push", 500), ("window", count), ("facet", 1)):
        told = probe(job, place, limit)
        assert told["mb"] < floor + 25, (job, told, floor)
        assert job != "sort" or told["told"] == held["told"]
        assert found in (None, told["count"])


@pytest.mark.soak
def test_ten_million_documents_in_bounded_memory(tmp_path: Path) -> None:
    place, count = tmp_path / "many", 10_000_000
    probe("make", place, count)
    floor = probe("read", place, 100_000_000)["mb"]
    for job, found in (("sort", count), ("group", None), ("buckets", 10), ("window", count), ("facet", 1)):
        told = probe(job, place, 100_000_000)
        print(job, told)
        assert told["mb"] < floor + 250, (job, told, floor)
        assert found in (None, told["count"])
