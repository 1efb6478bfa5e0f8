"""Random expressions over random documents make what a server of MongoDB's protocol makes of them."""

from __future__ import annotations

import random
from typing import Any

import pytest
from pymongo import MongoClient
from pymongo.errors import OperationFailure

from gapless.documents.expressions.parse import parse_expression
from gapless.documents.expressions.scope import scope_of
from gapless.documents.values.codec import OPTIONS
from gapless.documents.values.order import MISSING
from gapless.errors import DataError
from support.random_documents import document
from support.random_expressions import expression
from support.typed_values import typed

DOCUMENTS, EXPRESSIONS = 40, 150


@pytest.mark.parametrize("seed", [1, *(pytest.param(one, marks=pytest.mark.soak) for one in range(2, 40))])
def test_random_expressions_make_what_the_server_makes(seed: int, mongo: MongoClient[Any]) -> None:
    chance = random.Random(seed)
    collection = mongo.get_database("expressions").get_collection(f"of_seed_{seed}").with_options(codec_options=OPTIONS)
    collection.insert_many([document(chance, number) for number in range(DOCUMENTS)])
    documents = list(collection.find({}))
    compared = 0
    for _ in range(EXPRESSIONS):
        asked = expression(chance)
        evaluate = parse_expression(asked)
        try:
            ours: Any = {one["_id"]: evaluate(scope_of(one)) for one in documents}
        except DataError:
            ours = {}
        theirs = made_by(collection, asked)
        if theirs is None:
            continue
        assert (ours == {}) == (theirs == {}), asked
        for number, value in theirs.items():
            assert typed(ours[number]) == typed(value), (asked, documents[number])
        compared += 1
    assert compared > EXPRESSIONS / 2


def made_by(collection: Any, asked: Any) -> dict[Any, Any] | None:
    """By the ids of documents; none where there is an error, None where it is an internal one, which says nothing."""
    try:
        found = list(collection.aggregate([{"$replaceWith": {"id": "$_id", "v": asked}}]))
    except OperationFailure as error:
        return None if error.code == 1 else {}
    return {one["id"]: one.get("v", MISSING) for one in found}
