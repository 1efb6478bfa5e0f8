"""Documents: records of no fixed shape, found and changed as MongoDB's users know it. Needs `gapless[documents]`."""

from typing import TYPE_CHECKING, Any

from gapless._names import names_of
from gapless.errors import NotSupported

if TYPE_CHECKING:
    from gapless.documents.collections.collection import Collection, collection
    from gapless.documents.collections.requests import (
        DeleteMany,
        DeleteOne,
        InsertOne,
        ReplaceOne,
        UpdateMany,
        UpdateOne,
    )
    from gapless.documents.filters.match import matcher as matcher
    from gapless.documents.filters.match import matches
    from gapless.documents.filters.prune import filter_to_predicate
    from gapless.documents.rows.query import query
    from gapless.documents.rows.zones import can_skip

__all__ = [
    "Collection",
    "DeleteMany",
    "DeleteOne",
    "InsertOne",
    "ReplaceOne",
    "UpdateMany",
    "UpdateOne",
    "can_skip",
    "collection",
    "filter_to_predicate",
    "matches",
    "query",
]
_NAMES_OF = {
    "gapless.documents.filters.match": ("matcher", "matches"),
    "gapless.documents.rows.zones": ("can_skip",),
    "gapless.documents.rows.query": ("query",),
    "gapless.documents.filters.prune": ("filter_to_predicate",),
    "gapless.documents.collections.collection": ("collection", "Collection"),
    "gapless.documents.collections.requests": (
        "DeleteMany",
        "DeleteOne",
        "InsertOne",
        "ReplaceOne",
        "UpdateMany",
        "UpdateOne",
    ),
}
_found = names_of(__name__, _NAMES_OF, globals())


def __getattr__(name: str) -> Any:
    """A public name. Raises NotSupported where pymongo or regex is not installed."""
    try:
        return _found(name)
    except ModuleNotFoundError as error:
        raise NotSupported(
            "documents need pymongo and regex",
            why=f"{error.name} is not installed",
            fix="pip install 'gapless[documents]'",
            feature="documents",
        ) from error
