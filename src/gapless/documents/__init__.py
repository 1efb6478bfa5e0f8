"""Documents: records of no fixed shape, found and changed as MongoDB's users know it. Needs `gapless[documents]`."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

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
_REQUESTS = ("DeleteMany", "DeleteOne", "InsertOne", "ReplaceOne", "UpdateMany", "UpdateOne")
_HOMES = {
    "matches": "gapless.documents.filters.match",
    "can_skip": "gapless.documents.rows.zones",
    "query": "gapless.documents.rows.query",
    "filter_to_predicate": "gapless.documents.filters.prune",
    "collection": "gapless.documents.collections.collection",
    "Collection": "gapless.documents.collections.collection",
    **dict.fromkeys(_REQUESTS, "gapless.documents.collections.requests"),
}


def __getattr__(name: str) -> Any:
    """A public name. Raises NotSupported where pymongo or regex is not installed."""
    if name not in _HOMES:
        raise AttributeError(f"module 'gapless.documents' has no attribute {name!r}")
    try:
        return getattr(import_module(_HOMES[name]), name)
    except ModuleNotFoundError as error:
        raise NotSupported(
            "documents need pymongo and regex",
            why=f"{error.name} is not installed",
            fix="pip install 'gapless[documents]'",
            feature="documents",
        ) from error
