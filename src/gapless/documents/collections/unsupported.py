"""What pymongo's collections and cursors have and ours have not, with what to do instead."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from gapless.errors import NotSupported

_SEARCH = "There is no full-text index; a lake has gl.lake, and texts are found by $regex"
_SERVER = "There is no server; a collection is a Delta table, and its options are arguments of gl.documents.collection"
OF_COLLECTIONS: Mapping[str, str] = {
    "aggregate_raw_batches": "Use aggregate(pipeline)",
    "codec_options": _SERVER,
    "count": "Use count_documents(filter)",
    "create_search_index": _SEARCH,
    "create_search_indexes": _SEARCH,
    "database": _SERVER,
    "drop": "Use delete_many({}), or delete the table's directory",
    "drop_search_index": _SEARCH,
    "ensure_index": "Use create_index(keys)",
    "find_and_modify": "Use find_one_and_update and its like",
    "find_raw_batches": "Use find(filter)",
    "full_name": "Use collection.table.url",
    "group": "Use aggregate with $group",
    "insert": "Use insert_one or insert_many",
    "list_search_indexes": _SEARCH,
    "map_reduce": "Use aggregate(pipeline)",
    "name": "Use collection.table.url",
    "next": "Use find(filter)",
    "options": "Use collection.table.properties",
    "read_concern": _SERVER,
    "read_preference": _SERVER,
    "reindex": "Use collection.table.compact()",
    "remove": "Use delete_one or delete_many",
    "rename": "Move the table's directory",
    "save": "Use replace_one(filter, document, upsert=True)",
    "update": "Use update_one or update_many",
    "update_search_index": _SEARCH,
    "watch": 'Open it with properties={"delta.enableChangeDataFeed": True}, and read gl.cdc.changes(collection.table, …)',
    "with_options": _SERVER,
    "write_concern": "Each change is on disk when it returns",
}
"""Names of pymongo's `Collection`, of its fourth release and those before it."""
OF_CURSORS: Mapping[str, str] = {
    "add_option": _SERVER,
    "address": _SERVER,
    "allow_disk_use": "Sorts use a temporary file where memory_limit of gl.documents.collection does not hold them",
    "alive": "A cursor is gone through as often as you like; next(iter(cursor)) gives the first",
    "batch_size": "Documents come as they are read, in batches of row groups",
    "collation": "Texts are compared by their code points",
    "collection": "Keep the collection that find was called of",
    "comment": "Write it in the filter: {'$comment': '…'}",
    "count": "Use count_documents(filter)",
    "cursor_id": _SERVER,
    "explain": "Use collection.explain(filter)",
    "hint": "Statistics of all indexes leave files out",
    "max": "Say it in the filter: {'a': {'$lt': 5}}",
    "max_await_time_ms": _SERVER,
    "max_scan": "Use limit",
    "max_time_ms": _SERVER,
    "min": "Say it in the filter: {'a': {'$gte': 5}}",
    "next": "Use next(iter(cursor)), or find_one(filter)",
    "remove_option": _SERVER,
    "retrieved": _SERVER,
    "session": _SERVER,
    "where": "Say it in the filter, with $expr",
}
"""Names of pymongo's `Cursor`."""
_OPTIONS: Mapping[str, str] = {
    "allowDiskUse": "Leave it out, or give gl.documents.collection a memory_limit: stages use a temporary file beyond it",
    "let": "Write the values in the pipeline",
}


def missing(owner: str, name: str, known: Mapping[str, str]) -> Exception:
    """The error for an attribute that is not there: NotSupported for one that pymongo has."""
    if name not in known:
        return AttributeError(f"{owner!r} object has no attribute {name!r}")
    return NotSupported(
        f"a {owner.lower()} of documents has no {name}",
        why="It is a Delta table, and has the part of pymongo's methods that a table can keep",
        fix=known[name],
        feature=name,
    )


def refuse(method: str, options: Iterable[str]) -> None:
    """Raise NotSupported for the first option that a method of pymongo's has and ours has not."""
    for option in options:
        raise NotSupported(
            f"{method} has no option {option}",
            why="It is of a server, or not built",
            fix=_OPTIONS.get(option, "Leave it out"),
            feature=option,
        )
