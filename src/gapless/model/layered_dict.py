"""A copy-on-write dict: a copy costs what changed lately, not what it holds."""

from __future__ import annotations

from collections.abc import ItemsView, Iterator, Mapping, MutableMapping, ValuesView
from dataclasses import dataclass, field
from typing import Generic, TypeVar

V = TypeVar("V")

MAX_CHANGES = 256
"""Changes that a copy carries along; past that they become part of what copies share."""


@dataclass(slots=True)
class Base(Generic[V]):
    """What copies share: never changed, but for what is derived from it."""

    items: Mapping[str, V] = field(default_factory=dict)
    derived: object = None
    """What a subclass makes of the items once and keeps; None before."""


@dataclass(frozen=True, slots=True)
class _Layers(Generic[V]):
    base: Base[V]
    new: dict[str, V]
    """Set since the base was made."""
    gone: set[str]
    """Keys of the base that were deleted since; one that is set again is in `new` too."""


class LayeredDict(MutableMapping[str, V]):
    """A dict by text, in order of insertion as a dict is. `of` copies in a time that does not grow with its length.

    Whoever has published one must not change it any more: copies share its parts.
    """

    __slots__ = ("_flat", "_layers", "_length")

    _flat: dict[str, V] | None
    """All items as one dict; None where it must be made."""

    def __init__(self) -> None:
        """An empty one."""
        self._layers: _Layers[V] = _Layers(Base(), {}, set())
        self._length = 0
        self._flat = None

    @classmethod
    def of(cls, items: Mapping[str, V]) -> LayeredDict[V]:
        """A copy, to be changed apart from `items`; those of another class are copied in full."""
        made = cls()
        if isinstance(items, cls):
            layers = items.compacted()
            made._layers = _Layers(layers.base, dict(layers.new), set(layers.gone))
            made._length = len(items)
        else:
            made._layers = _Layers(Base(dict(items)), {}, set())
            made._length = len(items)
        return made

    def compacted(self) -> _Layers[V]:
        """Its layers, with few changes on top of a base; what it holds stays the same."""
        layers = self._layers
        if self._is_much(len(layers.new) + len(layers.gone)):
            layers = self._layers = _Layers(self._merged(layers.base, layers.new, layers.gone), {}, set())
        return layers

    def _is_much(self, changes: int) -> bool:
        """Whether a copy should not carry so many changes along."""
        return changes > MAX_CHANGES

    def _merged(self, base: Base[V], new: dict[str, V], gone: set[str]) -> Base[V]:
        """A base that says what all layers say."""
        return Base(_flattened(self._plain(base), new, gone))

    def _plain(self, base: Base[V]) -> dict[str, V]:
        """A base's items as a plain dict, which no one changes."""
        return base.items if isinstance(base.items, dict) else dict(base.items)

    def _on(self, base: Base[V]) -> _Layers[V]:
        """A base, and no changes since."""
        return _Layers(base, {}, set())

    def __getitem__(self, key: str) -> V:
        """The value; KeyError where there is none."""
        layers = self._layers
        if key in layers.new:
            return layers.new[key]
        if key in layers.gone:
            raise KeyError(key)
        return layers.base.items[key]

    def __contains__(self, key: object) -> bool:
        """Whether it holds the key."""
        layers = self._layers
        return key in layers.new or (key in layers.base.items and key not in layers.gone)

    def __setitem__(self, key: str, value: V) -> None:
        """Set a value: a new key goes last, one that is there keeps its place."""
        layers = self._layers
        if key not in layers.new and (key not in layers.base.items or key in layers.gone):
            self._length += 1
        self._flat = None
        layers.new[key] = value

    def set_all(self, items: Mapping[str, V]) -> None:
        """Set many values, as one by one."""
        self._length += sum([key not in self for key in items]) if self._length else len(items)
        self._flat = None
        self._layers.new.update(items)

    def __delitem__(self, key: str) -> None:
        """Take a key away; KeyError where it is not there."""
        if key not in self:
            raise KeyError(key)
        layers = self._layers
        self._length -= 1
        self._flat = None
        layers.new.pop(key, None)
        if key in layers.base.items:
            layers.gone.add(key)

    def __len__(self) -> int:
        """How many keys it holds."""
        return self._length

    def __iter__(self) -> Iterator[str]:
        """Keys in order of insertion."""
        return iter(self._whole())

    def items(self) -> ItemsView[str, V]:
        """Pairs in order of insertion."""
        return self._whole().items()

    def values(self) -> ValuesView[V]:
        """Values in order of insertion."""
        return self._whole().values()

    def __repr__(self) -> str:
        """As that of a dict."""
        return f"{type(self).__name__}({self._whole()!r})"

    def _whole(self) -> dict[str, V]:
        flat, layers = self._flat, self._layers
        if flat is None:
            items = self._plain(layers.base)
            flat = self._flat = _flattened(items, layers.new, layers.gone) if layers.new or layers.gone else items
        return flat


def _flattened(base: dict[str, V], new: dict[str, V], gone: set[str]) -> dict[str, V]:
    kept = {key: value for key, value in base.items() if key not in gone} if gone else base
    return kept | new
