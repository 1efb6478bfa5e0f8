"""Column names that are looked up without regard to case."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gapless.predicate.range import NameIndex, matching

names = st.lists(st.sampled_from(("a", "A", "aB", "AB", "Ab", "ß", "ẞ", "SS", "İ", "i", "")), unique=True)


@given(names, names, st.sampled_from(("a", "A", "ab", "AB", "ß", "ss", "İ", "i̇", "", "x")))
def test_an_index_finds_what_a_look_at_all_names_finds(before: list[str], after: list[str], sought: str) -> None:
    index = NameIndex(before)
    assert index.matching(sought) == matching(sought, before)
    added = [name for name in after if name not in before]
    for name in added:
        index.add(name)
    assert index.matching(sought) == matching(sought, [*before, *added])
    index.matching(sought).append("not the index's")
    assert index.matching(sought) == matching(sought, [*before, *added])
