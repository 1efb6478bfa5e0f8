"""The indexes of a collection: what `create_index` and its like take."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from gapless.documents.collections.indexing import IndexCreation, IndexRemoval
from gapless.documents.collections.reading import Reading
from gapless.documents.collections.storage import ID_INDEX, Index, parse_keys
from gapless.documents.values.codec import ID
from gapless.errors import InvalidOption, NotSupported
from gapless.tables.delta.handle import context_of
from gapless.tables.delta.write.rewrite import change_rows


class Indexed(Reading):
    """A collection whose paths are indexed."""

    def create_index(self, keys: object, *, name: str | None = None, **options: object) -> str:
        """Keep statistics of paths, by which `find` and changes leave out files; the name of the index. Nothing where it is there.

        Args:
            keys: A path, or pairs of a path and 1 or -1. Each path has a column of its own, so that the order of keys says nothing.
            name: What it is called; "a_1_b.c_-1" where not given.
            options: None is known; each is refused by name.

        All documents are written anew for a path that had no column. Raises InvalidOption, NotSupported, and as `gl.delta`'s `update`.
        """
        for option in options:
            raise NotSupported(
                f"create_index has no option {option}",
                why="An index is statistics of paths, by which files are left out",
                fix="Leave it out; of ids one is there once anyway",
                feature=option,
            )
        parsed = parse_keys(keys)
        if [path for path, _ in parsed] == [ID]:
            return ID_INDEX
        uuid = context_of(self._table).env.ids.uuid
        creation = IndexCreation(name=name, keys=parsed, url=self._table.url, new_name=lambda: f"col-{uuid()}")
        change_rows(self._table, creation, None)
        return next(one.name for one in self._indexes() if one.keys == parsed)

    def create_indexes(self, indexes: Sequence[Any]) -> list[str]:
        """`create_index` of each of pymongo's `IndexModel`s, one after the other; their names. Raises as `create_index`."""
        found = [getattr(one, "document", one) for one in indexes]
        wrong = next((one for one in found if not isinstance(one, Mapping) or "key" not in one), None)
        if wrong is not None or not found:
            raise InvalidOption(
                f"{wrong!r:.80} is no index" if found else "there is no index",
                why="It takes pymongo's IndexModel",
                fix='Pass [IndexModel([("a", 1)])], or call create_index',
                option="indexes",
                value=indexes,
            )
        return [
            self.create_index(
                list(one["key"].items()) if isinstance(one["key"], Mapping) else one["key"],
                **{option: value for option, value in one.items() if option != "key"},
            )
            for one in found
        ]

    def drop_index(self, index_or_name: object) -> None:
        """Keep no more statistics of an index, called by its name or its keys. No document is written.

        Its columns stay in the table, and later documents have nothing in them. Raises InvalidOption where there is no such index, or it is
        that of `_id`; StoreError, CommitConflict.
        """
        keys = None if isinstance(index_or_name, str) else parse_keys(index_or_name)

        def chosen(one: Index) -> bool:
            return one.name == index_or_name if keys is None else one.keys == keys

        is_id = index_or_name == ID_INDEX or [path for path, _ in keys or ()] == [ID]
        if is_id or not any(map(chosen, self._indexes())):
            names = ", ".join(map(repr, self.index_information()))
            raise InvalidOption(
                f"there is no index {index_or_name!r} to drop" if not is_id else "the index of _id cannot be dropped",
                why=f"There are {names}",
                fix="Pass the name of one, or its keys",
                option="index_or_name",
                value=index_or_name,
            )
        self._drop(chosen)

    def drop_indexes(self) -> None:
        """`drop_index` of all, but that of `_id`, in one commit."""
        self._drop(lambda _: True)

    def list_indexes(self) -> Iterator[dict[str, Any]]:
        """What is indexed, that of `_id` first. Raises UnsupportedTable, StoreError."""
        yield {"v": 2, "key": {ID: 1}, "name": ID_INDEX}
        yield from (one.describe() for one in self._indexes())

    def index_information(self) -> dict[str, dict[str, Any]]:
        """The keys of each index, by its name. Raises as `list_indexes`."""
        return {one["name"]: {"v": one["v"], "key": list(one["key"].items())} for one in self.list_indexes()}

    def _drop(self, chosen: Callable[[Index], bool]) -> None:
        change_rows(self._table, IndexRemoval(chosen=chosen, url=self._table.url), None)
