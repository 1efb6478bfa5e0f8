"""Random pipelines over random documents make what a server of MongoDB's protocol makes of them."""

from __future__ import annotations

import random
from typing import Any

import pytest
from pymongo import MongoClient
from pymongo.errors import OperationFailure

from gapless.documents.aggregation.parse import parse_pipeline
from gapless.documents.aggregation.stages import Running, run
from gapless.documents.values.codec import OPTIONS
from gapless.errors import DataError
from support.random_documents import document
from support.random_pipelines import pipeline
from support.typed_values import documents_of

DOCUMENTS, PIPELINES = 60, 100


@pytest.mark.parametrize("seed", [1, *(pytest.param(one, marks=pytest.mark.soak) for one in range(2, 40))])
def test_random_pipelines_make_what_the_server_makes(seed: int, mongo: MongoClient[Any]) -> None:
    chance = random.Random(seed)
    collection = mongo.get_database("pipelines").get_collection(f"of_seed_{seed}").with_options(codec_options=OPTIONS)
    collection.insert_many([document(chance, number) for number in range(DOCUMENTS)])
    documents = list(collection.find({}))
    at = Running(read=lambda *_: iter(()), draw=chance.random)
    some = 0
    for _ in range(PIPELINES):
        asked = pipeline(chance)
        try:
            ours: Any = list(run(parse_pipeline(asked), iter(documents), at))
        except DataError:
            ours = None
        internal, theirs = made_by(collection, asked)
        if internal:
            continue
        assert (ours is None) == (theirs is None), asked
        if ours is not None and theirs is not None:
            assert documents_of(ours, in_order=False) == documents_of(theirs, in_order=False), asked
        some += bool(ours)
    assert some > PIPELINES / 2


def made_by(collection: Any, asked: Any) -> tuple[bool, list[dict[str, Any]] | None]:
    """Whether it failed inside, which says nothing, and what came out; None for an error."""
    try:
        return False, list(collection.aggregate(asked))
    except OperationFailure as error:
        return error.code == 1, None
