"""Random filters over random documents find what a server of MongoDB's protocol finds."""

from __future__ import annotations

import random
from typing import Any

import pytest
from pymongo import MongoClient

from gapless.documents.filters.match import holds
from gapless.documents.filters.parse import parse_filter
from support.random_documents import condition, document

DOCUMENTS, FILTERS = 120, 150


@pytest.mark.parametrize("seed", [1, *(pytest.param(one, marks=pytest.mark.soak) for one in range(2, 40))])
def test_random_filters_find_what_the_server_finds(seed: int, mongo: MongoClient[Any]) -> None:
    chance = random.Random(seed)
    collection = mongo.get_database("filters").get_collection(f"of_seed_{seed}")
    collection.insert_many([document(chance, number) for number in range(DOCUMENTS)])
    documents = list(collection.find({}))
    some = 0
    for _ in range(FILTERS):
        filter_ = condition(chance)
        parsed = parse_filter(filter_)
        ours = {one["_id"] for one in documents if holds(parsed, one)}
        assert ours == {one["_id"] for one in collection.find(filter_, {"_id": 1})}, filter_
        some += 0 < len(ours) < DOCUMENTS
    assert some > FILTERS / 3
