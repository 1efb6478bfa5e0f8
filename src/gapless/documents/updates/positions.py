"""`$`, `$[]` and `$[id]` in paths of updates: which elements of one document they are. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gapless.documents.filters.match import holds
from gapless.documents.filters.parse import parse_filter
from gapless.documents.filters.tree import All, At, Condition, Neither, Path, Some
from gapless.documents.updates.fields import not_viable, value_at
from gapless.errors import InvalidOption, InvalidValue, nearest

ArrayFilters = Mapping[str, Condition]
"""By identifier, over documents whose only field is that."""
_IDENTIFIER = re.compile(r"[a-z][A-Za-z0-9]*")
_NAMED = re.compile(r"\$\[([^\]]+)\]")
EVERY = "$[]"


def parse_array_filters(given: object, used: Sequence[Path]) -> ArrayFilters:
    """The filters of elements, each for the identifier that its fields begin with. Raises InvalidOption, InvalidFilter, NotSupported.

    `used` are the update's paths: each identifier in them has one filter, and each filter is used.
    """
    filters: dict[str, Condition] = {}
    if given is not None and not isinstance(given, list | tuple):
        raise _invalid(given, "They are a list of filters", 'Pass [{"e.score": {"$lt": 5}}]')
    for one in given or ():
        condition = parse_filter(one)
        names = {path[0] for path in _paths(condition)}
        if len(names) != 1 or not _IDENTIFIER.fullmatch(name := next(iter(names))) or name in filters:
            raise _invalid(
                one, "Each filter is of one identifier, small letter first, and each identifier has one filter", "Name it so"
            )
        filters[name] = condition
    asked = {match.group(1) for path in used for part in path if (match := _NAMED.fullmatch(part))}
    if unknown := sorted(asked - filters.keys()):
        raise _invalid(f"$[{unknown[0]}]", "No filter says which elements it is", nearest(unknown[0], filters))
    if unused := sorted(filters.keys() - asked):
        raise _invalid(unused[0], "No path of the update uses it", f"Leave the filter out, or name $[{unused[0]}] in a path")
    return filters


def _paths(condition: Condition) -> Iterator[Path]:
    match condition:
        case All(conditions) | Some(conditions) | Neither(conditions):
            for one in conditions:
                yield from _paths(one)
        case At(path, _):
            yield path


def _invalid(what: object, why: str, fix: str) -> InvalidOption:
    return InvalidOption(f"array_filters do not fit: {what!r}", why=why, fix=fix, option="array_filters", value=what)


@dataclass(frozen=True, slots=True)
class Elements:
    """Which elements the positional parts of paths are, in one document."""

    place: int | None
    """That of `$`: the element that the filter found."""
    filters: ArrayFilters

    def expand(self, document: Any, path: Path) -> list[Path]:
        """The paths, with places in them. Raises InvalidValue where there is no array, or `$` has no element."""
        for depth, part in enumerate(path):
            if not part.startswith("$"):
                continue
            places = self._places(document, path[:depth], part, path)
            return [
                found for place in places for found in self.expand(document, (*path[:depth], str(place), *path[depth + 1 :]))
            ]
        return [path]

    def _places(self, document: Any, above: Path, part: str, path: Path) -> list[int]:
        if part == "$":
            if self.place is None:
                raise InvalidValue(
                    f"{'.'.join(path)!r} has no element for its $",
                    why="The filter found the document without an element of an array; nothing was changed",
                    fix="Ask for the array in the filter, or name elements with $[] or array_filters",
                    column=".".join(path),
                    row=0,
                    value=None,
                )
            return [self.place]
        array = value_at(document, above)
        if not isinstance(array, list):
            raise not_viable(path, array, f"{'.'.join(above)!r} is no array, of which {part} would be elements")
        if part == EVERY:
            return list(range(len(array)))
        found = _NAMED.fullmatch(part)
        assert found is not None
        name = found.group(1)
        return [place for place, one in enumerate(array) if holds(self.filters[name], {name: one})]
