"""A layered dict against a plain one, with copies that must not feel what happens to each other."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gapless.model import layered_dict
from gapless.model.layered_dict import LayeredDict

KEYS = st.sampled_from([f"k{number}" for number in range(12)])
ACTS = st.one_of(
    st.tuples(st.just("set"), KEYS, st.integers(0, 9)),
    st.tuples(st.just("delete"), KEYS),
    st.tuples(st.just("copy")),
)


def same(made: LayeredDict[int], plain: dict[str, int]) -> None:
    assert list(made.items()) == list(plain.items())
    assert list(made) == list(plain)
    assert list(made.values()) == list(plain.values())
    assert len(made) == len(plain)
    assert made == plain
    for key in (f"k{number}" for number in range(12)):
        assert (key in made, made.get(key)) == (key in plain, plain.get(key))


def act(on: LayeredDict[int] | dict[str, int], what: tuple[Any, ...]) -> str | None:
    match what:
        case ("set", key, value):
            on[key] = value
        case ("delete", key):
            try:
                del on[key]
            except KeyError:
                return "no such key"
    return None


@given(first=st.dictionaries(KEYS, st.integers()), acts=st.lists(ACTS, max_size=40), limit=st.integers(0, 6))
def test_it_is_a_dict_and_copies_stay_as_they_were(first: dict[str, int], acts: list[tuple[Any, ...]], limit: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(layered_dict, "MAX_CHANGES", limit)
        made, plain = LayeredDict.of(first), dict(first)
        kept: list[tuple[LayeredDict[int], dict[str, int]]] = []
        for what in acts:
            if what[0] == "copy":
                kept.append((made, dict(plain)))
                made = LayeredDict.of(made)
            else:
                assert act(made, what) == act(plain, what)
            same(made, plain)
        for copy, then in kept:
            same(copy, then)


def test_a_copy_does_not_copy_what_is_shared() -> None:
    made = LayeredDict.of({str(number): number for number in range(10_000)})
    for number in range(3 * layered_dict.MAX_CHANGES):
        made = LayeredDict.of(made)
        made[f"new {number}"] = number
        layers = made.compacted()
        assert len(layers.new) <= layered_dict.MAX_CHANGES + 1
    assert len(made) == 10_000 + 3 * layered_dict.MAX_CHANGES
    again = LayeredDict.of(made)
    assert again.compacted().base is made.compacted().base
