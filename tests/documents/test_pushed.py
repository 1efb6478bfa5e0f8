"""What columns of indexed paths tell exactly is not decoded: counts and groups, equal to those of the documents themselves."""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from bson.decimal128 import Decimal128
from bson.int64 import Int64

import gapless as gl
from gapless.documents.aggregation import pushed
from gapless.documents.aggregation.parse import parse_pipeline
from gapless.documents.aggregation.stages import Running, run
from gapless.documents.collections.storage import Index, columns_of, rows_of
from gapless.documents.collections.version import Version
from gapless.documents.filters.exact import to_exact
from gapless.documents.filters.match import holds
from gapless.documents.filters.parse import parse_filter
from gapless.documents.values.codec import decode_document, encode_document
from gapless.documents.values.identity import id_text
from gapless.errors import CorruptTable, DataError, InvalidFilter
from gapless.predicate.expression import to_expression
from support.random_documents import condition, document, operators
from support.typed_values import typed

PATHS = ("a", "b", "a.b", "b.a")
INDEXES = [Index(name=path, keys=((path, 1),), columns=(f"by_{path.replace('.', '_')}",)) for path in PATHS]
COLUMNS = columns_of(INDEXES)
AT = Running(read=lambda *_: iter(()), draw=random.Random(1).random)
EDGES: list[Any] = [
    0, 1, -1, 2**31, Int64(1), Int64(2**53), Int64(2**53 + 1), Int64(-(2**63)), Int64(2**63 - 1), 1.0, 1.5, -0.0, 0.1, 2.0**53, 2.0**63, 1e300,
    float("nan"), float("inf"), float("-inf"), Decimal128("1"), Decimal128("0.1"), Decimal128("9007199254740993"), "", "a", "a\0b", "^ab", "ab",
    "\U0001f600", "\uffff", datetime(1600, 1, 1), datetime(2026, 1, 5), datetime(2026, 1, 5, 0, 0, 0, 1000), datetime(2300, 1, 1),
    None, True, False, b"a", [], [1], {}, {"b": 1}, {"a": "x"},
]  # fmt: skip


def table_of(documents: list[dict[str, Any]]) -> Any:
    return rows_of([id_text(one["_id"]) for one in documents], documents, [encode_document(one) for one in documents], INDEXES)


def tells(column: dict[str, Any]) -> bool:
    return not column["other"] and (column["kind"] is None or column["kind"] > 0)


def told_exactly(documents: list[dict[str, Any]], filters: list[dict[str, Any]]) -> int:
    """How many filters columns tell: what they say of each row that has nothing else is what the filter says."""
    table, told = table_of(documents), 0
    for filter_ in filters:
        asked = parse_filter(filter_)
        exact = to_exact(asked, COLUMNS)
        if exact is None:
            continue
        told += 1
        plain = {one for one in range(len(documents)) if all(tells(table[name][one].as_py()) for name in exact.columns)}
        kept = table.append_column("at", [list(range(len(documents)))]).filter(to_expression(exact.plain, table.schema))
        assert set(kept["at"].to_pylist()) == {one for one in plain if holds(asked, documents[one])}, filter_
        odd = table.append_column("at", [list(range(len(documents)))]).filter(to_expression(exact.elsewhere, table.schema))
        assert set(odd["at"].to_pylist()) == set(range(len(documents))) - plain
    return told


@pytest.mark.parametrize("seed", [1, *(pytest.param(one, marks=pytest.mark.soak) for one in range(2, 60))])
def test_a_predicate_is_true_of_just_the_rows_that_match(seed: int) -> None:
    chance = random.Random(seed)
    documents = [document(chance, number) for number in range(150)]
    filters = [condition(chance) for _ in range(200)] + [{"a": operators(chance, 1, dotted=True)} for _ in range(100)]
    assert told_exactly(documents, filters) > 60


def test_a_predicate_of_each_operator_is_exact_at_every_edge() -> None:
    documents = [decode_document(encode_document({"_id": at, "a": one})) for at, one in enumerate(EDGES)] + [{"_id": -1}]
    filters: list[dict[str, Any]] = [
        {"a": {operator: [one] if operator in ("$in", "$nin", "$all") else one}}
        for one in EDGES
        for operator in ("$eq", "$ne", "$gt", "$gte", "$lt", "$lte", "$in", "$nin", "$all")
    ]
    filters += [{"a": {"$not": one["a"]}} for one in filters]
    filters += [
        {"a": {"$type": one}} for one in ("number", "int", "long", "double", "string", "date", "bool", ["int", "string"])
    ]
    filters += [{"a": {"$regex": "^ab"}}, {"a": {"$regex": "^"}}, {"_id": {"$in": [3, 4.0]}}, {"$nor": [{"a": 1}, {"_id": 5}]}]
    assert told_exactly(documents, filters) > len(filters) // 2


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A collection of which columns are asked though it has few documents."""
    monkeypatch.setattr("gapless.documents.collections.version.FEW_ROWS", 0)
    return gl.documents.collection(tmp_path / "made")


@pytest.mark.parametrize("seed", [1, 2, *(pytest.param(one, marks=pytest.mark.soak) for one in range(3, 30))])
def test_counts_are_those_of_the_documents(seed: int, made: Any) -> None:
    chance = random.Random(seed)
    made.create_index([("a", 1), ("b", 1)])
    made.create_index("b.a")
    for batch in range(3):
        made.insert_many([document(chance, batch * 40 + at) for at in range(40)])
    made.delete_many({"_id": {"$in": [3, 50]}})
    documents = made.find().to_list()
    for _ in range(120):
        filter_ = condition(chance)
        wanted = sum(holds(parse_filter(filter_), one) for one in documents)
        assert made.count_documents(filter_) == wanted, filter_
        assert made.aggregate([{"$match": filter_}, {"$count": "n"}]).to_list() == ([{"n": wanted}] if wanted else []), filter_


def values_of(chance: random.Random) -> list[Any]:
    """Values of which columns tell all, each list of one type of numbers."""
    numbers: list[Any] = chance.choice(
        [[0, 1, 5, -7, 2**31 - 1], [Int64(1), Int64(2**40), Int64(-3)], [0.5, 1.0, -2.5, 1e100], [], [Int64(2**53)], [2**31]]
    )
    others: list[Any] = chance.choice(
        [[], ["", "a", "b\0", "é"], [datetime(2026, 1, 1), datetime(1999, 5, 5, 1, 2, 3, 4000)], ["x", datetime(2020, 1, 1)]]
    )
    return [*numbers, *others, None]


@pytest.mark.parametrize("seed", [1, 2, 3, *(pytest.param(one, marks=pytest.mark.soak) for one in range(4, 40))])
def test_groups_are_those_of_the_documents(seed: int, made: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    chance = random.Random(seed)
    for path in ("k", "v", "d.x"):
        made.create_index(path)
    keys, values, below = values_of(chance), values_of(chance), values_of(chance)
    for batch in range(3):
        some = [
            {"_id": batch * 50 + at, "k": chance.choice(keys), "v": chance.choice(values), "d": {"x": chance.choice(below)}}
            for at in range(50)
        ]
        for one in some:
            for name in ("k", "v", "d"):
                if chance.random() < 0.1:
                    del one[name]
        made.insert_many(some)
    made.delete_many({"_id": {"$mod": [17, 3]}})
    queries = counted(monkeypatch)
    for _ in range(30):
        fields = {f"f{at}": accumulator(chance) for at in range(chance.randrange(4))}
        filter_ = chance.choice(
            [{}, {"k": chance.choice(keys)}, {"v": {"$gte": chance.choice(values)}}, {"d.x": {"$ne": 1}}, {"z": 1}]
        )
        pipeline = [{"$match": filter_}, {"$group": {"_id": chance.choice(["$k", "$d.x", None, "$$ROOT.v"]), **fields}}]
        stages, documents = parse_pipeline(pipeline), made.find().to_list()
        wanted = list(run(stages, iter(documents), AT))
        # Groups come in the order of their first documents, and sums have the types that they have.
        assert typed(made.aggregate(pipeline).to_list()) == typed(wanted), pipeline
    assert len(queries) > 5


def accumulator(chance: random.Random) -> dict[str, Any]:
    operand = chance.choice(["$k", "$v", "$d.x", 1, Int64(2), 2**40])
    return chance.choice(
        [{"$sum": operand}, {"$count": {}}, {chance.choice(["$sum", "$avg", "$min", "$max"]): chance.choice(["$v", "$d.x"])}]
    )


def counted(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The queries that are pushed from now on."""
    found: list[str] = []
    query_of = pushed.query_of

    def noted(group: Any) -> str:
        found.append(query_of(group))
        return found[-1]

    monkeypatch.setattr("gapless.documents.collections.version.query_of", noted)
    return found


@pytest.mark.parametrize(
    "odd",
    [[1], {"b": 1}, True, Decimal128("1"), float("nan"), -0.0, 1.0, Int64(1), Int64(2**53 + 1)],
    ids=str,
)
def test_what_columns_do_not_tell_is_gathered_of_the_documents(odd: Any, made: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    made.create_index("k")
    made.insert_many([{"_id": at, "k": at % 3} for at in range(9)])
    queries = counted(monkeypatch)
    by_k = [{"$group": {"_id": "$k", "n": {"$sum": 1}, "low": {"$min": "$k"}}}]
    assert [one["n"] for one in made.aggregate(by_k)] == [3, 3, 3]
    assert len(queries) == 1
    made.insert_one({"_id": "odd", "k": odd})
    documents = made.find().to_list()
    assert typed(made.aggregate(by_k).to_list()) == typed(list(run(parse_pipeline(by_k), iter(documents), AT)))
    assert len(queries) == 1
    # Where it does not match it is not in the way.
    assert made.aggregate([{"$match": {"_id": {"$in": [0, 1, 2]}}}, *by_k]).to_list() == [
        {"_id": at, "n": 1, "low": at} for at in range(3)
    ]


def test_doubles_are_added_one_by_one(made: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    made.create_index("v")
    made.insert_many([{"_id": at, "v": 0.1 * at} for at in range(30)])
    queries = counted(monkeypatch)
    by_none = [{"$group": {"_id": None, "sum": {"$sum": "$v"}, "low": {"$min": "$v"}}}]
    wanted = list(run(parse_pipeline(by_none), iter(made.find().to_list()), AT))
    assert made.aggregate(by_none).to_list() == wanted
    assert not queries
    assert made.aggregate([{"$group": {"_id": None, "low": {"$max": "$v"}}}]).to_list() == [{"_id": None, "low": 0.1 * 29}]
    assert len(queries) == 1


def test_no_document_is_decoded(made: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    made.create_index([("k", 1), ("n", 1), ("at", 1)])
    start = datetime(2026, 1, 1)
    made.insert_many([{"_id": one, "k": f"k{one % 5}", "n": one, "at": start + timedelta(hours=one)} for one in range(100)])

    def refused(*_: Any) -> Iterator[Any]:
        raise AssertionError("a document is read")

    monkeypatch.setattr(Version, "_decoded", refused)
    assert made.count_documents({"k": "k1", "n": {"$gte": 50}}) == 10
    assert made.count_documents({"$or": [{"at": {"$lt": start + timedelta(hours=5)}}, {"n": {"$nin": list(range(98))}}]}) == 7
    assert made.aggregate([{"$match": {"k": {"$regex": "^k"}}}, {"$count": "n"}]).to_list() == [{"n": 100}]
    top = [
        {"$match": {"n": {"$lt": 50}}},
        {"$group": {"_id": "$k", "n": {"$sum": "$n"}, "last": {"$max": "$at"}}},
        {"$sort": {"_id": -1}},
    ]
    assert made.aggregate([*top, {"$limit": 1}]).to_list() == [{"_id": "k4", "n": 265, "last": start + timedelta(hours=49)}]
    assert made.aggregate([{"$sortByCount": "$k"}, {"$limit": 1}]).to_list() == [{"_id": "k0", "count": 20}]
    with pytest.raises(AssertionError, match="is read"):
        made.aggregate([{"$group": {"_id": "$k", "all": {"$push": "$n"}}}]).to_list()


def test_errors_of_reading_and_of_filters_are_told_as_ever(made: Any) -> None:
    made.create_index("k")
    made.insert_many([{"_id": one, "k": one % 5} for one in range(100)])
    with pytest.raises(InvalidFilter):
        made.aggregate([{"$match": {"k": {"$gtt": 1}}}, {"$group": {"_id": "$k"}}])
    for file in Path(made.table.url).glob("*.parquet"):
        file.write_bytes(b"PAR1 is damaged PAR1")
    for pipeline in ([{"$group": {"_id": "$k", "n": {"$sum": 1}}}], [{"$match": {"k": {"$ne": 9, "$gt": 2}}}, {"$count": "n"}]):
        with pytest.raises(CorruptTable):
            made.aggregate(pipeline).to_list()


def test_random_pipelines_over_a_collection_are_those_over_its_documents(made: Any) -> None:
    chance = random.Random(30)
    made.create_index("a")
    made.insert_many([document(chance, at) for at in range(80)])
    documents = made.find().to_list()
    for _ in range(80):
        group = {
            "_id": chance.choice(["$a", "$b", None]),
            "n": {"$sum": chance.choice([1, "$a"])},
            "m": {chance.choice(["$min", "$avg"]): "$a"},
        }
        pipeline = [{"$match": condition(chance, 1)}, {"$group": group}]
        try:
            wanted = list(run(parse_pipeline(pipeline), iter(documents), AT))
        except DataError:
            continue
        assert typed(made.aggregate(pipeline).to_list()) == typed(wanted), pipeline


# -- the first in an order ---------------------------------------------------------------------------------------------


def ordered(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The orders that are pushed from now on."""
    found: list[str] = []
    order_query = pushed.order_query

    def noted(by: Any, most: int) -> str:
        found.append(order_query(by, most))
        return found[-1]

    monkeypatch.setattr("gapless.documents.collections.version.order_query", noted)
    return found


@pytest.mark.parametrize("seed", [1, 2, 3, *(pytest.param(one, marks=pytest.mark.soak) for one in range(4, 40))])
def test_the_first_in_an_order_are_those_of_the_documents(seed: int, made: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    chance = random.Random(seed)
    for path in ("k", "v", "d.x"):
        made.create_index(path)
    keys, values, below = ([*values_of(chance), *values_of(chance)] for _ in range(3))
    for batch in range(3):
        some = [
            {"_id": batch * 50 + at, "k": chance.choice(keys), "v": chance.choice(values), "d": {"x": chance.choice(below)}}
            for at in range(50)
        ]
        for one in some:
            if chance.random() < 0.1:
                del one[chance.choice(["k", "v", "d"])]
        made.insert_many(some)
    made.delete_many({"_id": {"$mod": [17, 3]}})
    made.update_many({"_id": {"$mod": [13, 1]}}, {"$set": {"z": 1}})
    queries, documents = ordered(monkeypatch), made.find().to_list()
    for _ in range(40):
        by = [(path, chance.choice([1, -1])) for path in chance.sample(["k", "v", "d.x"], chance.randrange(1, 4))]
        filter_ = chance.choice([{}, {"k": chance.choice(keys)}, {"v": {"$gte": chance.choice(values)}}, {"d.x": {"$ne": 1}}])
        skip, limit = chance.choice([0, 3]), chance.choice([1, 5, 40, 500])
        pipeline = [{"$match": filter_}, {"$sort": dict(by)}, {"$skip": skip}, {"$limit": limit}]
        wanted = typed(list(run(parse_pipeline(pipeline), iter(documents), AT)))
        # Those that are equal come as their files have them.
        assert typed(made.find(filter_, sort=by, skip=skip, limit=limit).to_list()) == wanted, (filter_, by)
        assert typed(made.aggregate([*pipeline, {"$match": {}}]).to_list()) == wanted, (filter_, by)
    assert len(queries) > 20


@pytest.mark.parametrize("odd", [[1], True, Decimal128("1"), float("nan"), -0.0, Int64(2**53 + 1)], ids=str)
def test_an_order_that_columns_do_not_tell_is_that_of_the_documents(
    odd: Any, made: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    made.create_index("k")
    made.insert_many([{"_id": at, "k": at % 3} for at in range(9)])
    queries = ordered(monkeypatch)
    assert [one["_id"] for one in made.find(sort=[("k", -1)], limit=4)] == [2, 5, 8, 1]
    assert made.find_one(sort=[("k", -1)]) == {"_id": 2, "k": 2}
    assert len(queries) == 2
    made.insert_one({"_id": "odd", "k": odd})
    wanted = list(run(parse_pipeline([{"$sort": {"k": 1}}, {"$limit": 4}]), iter(made.find().to_list()), AT))
    assert typed(made.find(sort="k", limit=4).to_list()) == typed(wanted)
    assert len(made.find(sort="_id", limit=4).to_list()) == len(made.find(sort="k").to_list()[:4]) == 4
    assert len(queries) == 2


def test_few_documents_are_decoded_for_the_first_in_an_order(made: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    made.create_index("n")
    for start in range(0, 9_000, 3_000):
        made.insert_many({"_id": at, "n": at * 7919 % 9_000} for at in range(start, start + 3_000))
    read: list[int] = []
    decode = decode_document

    def counted(data: bytes, where: str) -> dict[str, Any]:
        read.append(1)
        return decode(data, where)

    monkeypatch.setattr("gapless.documents.collections.version.decode_document", counted)
    assert [one["n"] for one in made.find(sort=[("n", -1)], limit=5)] == [8999, 8998, 8997, 8996, 8995]
    assert len(read) == 5
    for file in Path(made.table.url).glob("*.parquet"):
        file.write_bytes(b"PAR1 is damaged PAR1")
    with pytest.raises(CorruptTable):
        made.find(sort="n", limit=5).to_list()
