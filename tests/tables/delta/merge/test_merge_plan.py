"""What a merge's SQL means."""

from __future__ import annotations

import pyarrow as pa
import pytest

from gapless.errors import InvalidOption, InvalidQuery, UnknownColumn
from gapless.tables.delta.merge.plan import (
    Act,
    Clause,
    KeyPair,
    Match,
    Names,
    check_clauses,
    key_pairs,
    source_columns,
    target_terms,
)

NAMES = Names(
    target_alias="t",
    source_alias="s",
    target=pa.schema([("id", pa.int64()), ("Day", pa.string()), ("a.b", pa.int64()), ("at", pa.struct([("x", pa.int64())]))]),
    source=pa.schema([("id", pa.int64()), ("v", pa.float64()), ("s", pa.struct([("y", pa.int64())])), ('q"x', pa.int64())]),
)


@pytest.mark.parametrize(
    ("text", "flat"),
    [
        ("t.id = s.id", '"t.id" = "s.id"'),
        ("T.ID = S.Id", '"t.id" = "s.id"'),
        ("v > 1", '"s.v" > 1'),
        ("day || 'x'", "\"t.Day\" || 'x'"),
        ('t."a.b" + 1', '"t.a.b" + 1'),
        ("t.at.x = s.s.y", '"t.at"."x" = "s.s"."y"'),
        ("at.x", '"t.at"."x"'),
        ('s."q""x"', '"s.q""x"'),
        ("'t.id'", "'t.id'"),
        ("coalesce(s.v, t.id, 0)", 'COALESCE("s.v", "t.id", 0)'),
    ],
)
def test_names_are_told_apart_by_alias_or_by_who_has_them(text: str, flat: str) -> None:
    assert NAMES.flat(text) == flat


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("id = 1", InvalidQuery),
        ("t.nope", UnknownColumn),
        ("nope", UnknownColumn),
        ("t.id = ", InvalidQuery),
        ("t.id; s.id", InvalidQuery),
    ],
)
def test_names_that_mean_nothing_or_two_things_are_refused(text: str, error: type[Exception]) -> None:
    with pytest.raises(error):
        NAMES.flat(text)


def test_a_clause_sees_only_the_rows_it_is_for() -> None:
    assert NAMES.flat("id + 1", ("target",)) == '"t.id" + 1'
    with pytest.raises(InvalidQuery, match="no row of the source"):
        NAMES.flat("s.id", ("target",))
    with pytest.raises(UnknownColumn):
        NAMES.flat("v", ("target",))


@pytest.mark.parametrize(
    ("on", "pairs"),
    [
        ("t.id = s.id", [("id", "id")]),
        ("s.v = t.id AND (t.day = s.id AND t.id > 3)", [("id", "v"), ("Day", "id")]),
        ("t.id = s.id OR t.id = s.v", []),
        ("NOT t.id = s.id", []),
        ("t.id = t.day", []),
        ("t.id + 1 = s.id", []),
        ("t.at.x = s.id", []),
        ("t.id >= s.id", []),
        ("t.id IS NOT DISTINCT FROM s.id", []),
    ],
)
def test_keys_are_equalities_that_every_pair_of_rows_meets(on: str, pairs: list[tuple[str, str]]) -> None:
    assert key_pairs(on, NAMES) == [KeyPair(*pair) for pair in pairs]


def test_terms_on_the_target_alone_prune() -> None:
    assert target_terms("t.id = s.id AND day = 'x' AND (t.id > 3 OR t.at.x = 1) AND s.v > 1 AND 1 = 1", NAMES) == [
        "\"Day\" = 'x'",
        '"id" > 3 OR "at"."x" = 1',
    ]


def test_columns_of_the_source_are_found_in_all_texts() -> None:
    assert source_columns(["t.id = s.id", "v + s.s.y", "1"], NAMES) == {"id", "v", "s"}


def clause(match: Match, where: str | None = None, act: Act = "delete") -> Clause:
    return Clause(match=match, act=act, where=where)


def test_clauses_that_no_row_comes_to_are_refused() -> None:
    check_clauses(
        [clause("matched", "x"), clause("matched"), clause("not_matched", act="insert"), clause("not_matched_by_source")]
    )
    for wrong in ([], [clause("matched"), clause("matched", "x")], [clause("not_matched"), clause("not_matched")]):
        with pytest.raises(InvalidOption):
            check_clauses(wrong)
