"""Names that pymongo's users type: each is there, or an error that says what is."""

from __future__ import annotations

import copy
import random
from pathlib import Path
from typing import Any

import pymongo
import pytest
from pymongo.collection import Collection as Theirs
from pymongo.cursor import Cursor as TheirCursor

import gapless as gl
from gapless.documents.collections.collection import Collection
from gapless.documents.collections.cursor import Cursor
from gapless.documents.collections.unsupported import OF_COLLECTIONS, OF_CURSORS
from gapless.errors import InvalidOption, NotSupported
from support.random_documents import document
from support.typed_values import typed


@pytest.fixture
def made(tmp_path: Path) -> Collection:
    found = gl.documents.collection(tmp_path / "made")
    found.insert_many([{"_id": at, "n": at % 4, "t": [at % 3, "x"]} for at in range(12)])
    return found


@pytest.mark.parametrize(("theirs", "ours", "told"), [(Theirs, Collection, OF_COLLECTIONS), (TheirCursor, Cursor, OF_CURSORS)])
def test_every_name_of_pymongos_is_there_or_told(theirs: type, ours: type, told: dict[str, str]) -> None:
    names = {name for name in dir(theirs) if not name.startswith("_")}
    assert names - set(dir(ours)) - set(told) == set()
    assert set(told) & set(dir(ours)) == set()


def test_what_is_not_there_says_what_to_do(made: Collection) -> None:
    for owner, told in ((made, OF_COLLECTIONS), (made.find(), OF_CURSORS)):
        for name in told:
            with pytest.raises(NotSupported) as caught:
                getattr(owner, name)
            assert caught.value.feature == name
        assert not hasattr(owner, "no_such_name")
        assert copy.copy(owner) is not None
    with pytest.raises(NotSupported, match="memory_limit"):
        made.aggregate([], allowDiskUse=False)
    with pytest.raises(NotSupported, match="maxTimeMS"):
        made.aggregate([], maxTimeMS=5)
    assert len(made.aggregate([], allowDiskUse=True).to_list()) == 12


def test_cursors_are_sorted_cut_and_asked_for_values(made: Collection) -> None:
    cursor = made.find({"n": {"$gte": 1}})
    assert [one["_id"] for one in cursor.sort("n", pymongo.DESCENDING).limit(3)] == [3, 7, 11]
    assert [one["_id"] for one in cursor.sort([("n", -1), ("_id", -1)]).skip(1).limit(2)] == [7, 3]
    assert [one["_id"] for one in cursor.sort("_id").rewind()] == [one["_id"] for one in cursor.clone()]
    assert cursor.distinct("n") == made.distinct("n", {"n": {"$gte": 1}}) == [1, 2, 3]
    assert made.find().distinct("t") == [0, "x", 1, 2]
    first, some = made.find()[2], made.find()[2:5]
    assert first == {"_id": 2, "n": 2, "t": [2, "x"]}
    assert isinstance(some, Cursor)
    assert [one["_id"] for one in some] == [2, 3, 4]
    cursor.close()
    with pytest.raises(IndexError):
        made.find()[12]
    for wrong in (-1, slice(3, 3), slice(0, 4, 2)):
        with pytest.raises(InvalidOption):
            made.find()[wrong]
    with pytest.raises(InvalidOption):
        made.find().sort("a", 2)


def test_a_cursor_sorted_late_is_one_sorted_at_once(tmp_path: Path) -> None:
    chance = random.Random(3)
    collection = gl.documents.collection(tmp_path / "made")
    collection.insert_many([document(chance, at) for at in range(60)])
    for by in ([("a", 1), ("_id", 1)], [("b", -1), ("_id", -1)]):
        assert typed(collection.find().sort(by).to_list()) == typed(collection.find(sort=by).to_list())


def test_indexes_are_dropped(made: Collection) -> None:
    assert made.create_indexes([pymongo.IndexModel("n"), pymongo.IndexModel([("t", 1), ("z", -1)], name="tz")]) == ["n_1", "tz"]
    assert made.index_information() == {
        "_id_": {"v": 2, "key": [("_id", 1)]},
        "n_1": {"v": 2, "key": [("n", 1)]},
        "tz": {"v": 2, "key": [("t", 1), ("z", -1)]},
    }
    version, files = made.version, {one.path for one in made.table.files()}
    made.drop_index("tz")
    made.drop_index([("n", 1)])
    assert list(made.index_information()) == ["_id_"]
    assert (made.version, {one.path for one in made.table.files()}) == (version + 2, files)
    assert made.explain({"n": 77}) == {"files": 1, "files_read": 1}
    # What was written while there was no index is found by the next one.
    made.insert_one({"_id": "late", "n": 77})
    made.update_one({"_id": 3}, {"$set": {"n": 77}})
    assert made.create_index("n") == "n_1"
    assert {one["_id"] for one in made.find({"n": 77})} == {"late", 3}
    assert made.count_documents({"n": 3}) == 2
    made.create_index("t")
    version = made.version
    made.drop_indexes()
    assert (list(made.index_information()), made.version) == (["_id_"], version + 1)
    made.drop_indexes()
    assert made.version == version + 1
    again = gl.documents.collection(made.table.url)
    assert {one["_id"] for one in again.find({"n": 77})} == {"late", 3}


@pytest.mark.parametrize("wrong", ["nope", "_id_", "_id", [("_id", 1)], [("n", -1)]])
def test_an_index_that_is_not_there_cannot_be_dropped(wrong: Any, made: Collection) -> None:
    made.create_index("n")
    version = made.version
    with pytest.raises(InvalidOption) as caught:
        made.drop_index(wrong)
    assert caught.value.option == "index_or_name"
    assert made.version == version
    with pytest.raises(InvalidOption):
        made.create_indexes([])
    with pytest.raises(NotSupported, match="unique"):
        made.create_indexes([pymongo.IndexModel("n", unique=True)])
