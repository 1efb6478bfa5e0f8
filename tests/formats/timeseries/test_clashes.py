"""The one table of clashes, and the judge that follows it."""

from __future__ import annotations

import itertools

import pytest

from gapless.formats.timeseries.actions import Action, AddSegment, Commit, RemoveSegment, TableMeta, UpdateTableMeta
from gapless.formats.timeseries.conflict.rules import CHANGES, Change, change_of, describe, rules
from gapless.model.index import FixedWidth, IndexSpec
from gapless.model.properties import OVERLAP_POLICIES, OnOverlap
from gapless.model.segment import Bounds, Segment

SEGMENT = Segment(path="data/a.parquet", rows=1, size=1, bounds=Bounds(first=0, last=0), coverage=None)
LAID_OUT_ANEW = Segment(path="data/b.parquet", rows=1, size=1, bounds=Bounds(first=0, last=0), coverage=None, data_change=False)
META = TableMeta(index=IndexSpec(column="ts", type="timestamp", bucket=FixedWidth(1)), schema=None, created_ns=0)


@pytest.mark.parametrize(
    ("actions", "change"),
    [
        ([AddSegment(SEGMENT)], "append"),
        ([UpdateTableMeta(META), AddSegment(SEGMENT)], "append"),
        ([], "append"),
        ([RemoveSegment("data/x"), AddSegment(SEGMENT)], "rewrite"),
        ([RemoveSegment("data/x")], "rewrite"),
        ([RemoveSegment("data/x"), AddSegment(LAID_OUT_ANEW)], "compact"),
        ([UpdateTableMeta(META)], "properties"),
    ],
)
def test_what_a_commit_does_is_read_from_its_actions(actions: list[Action], change: Change) -> None:
    assert change_of(Commit(id="x", operation="whatever its writer calls it", actions=tuple(actions))) == change


def test_every_pair_and_policy_is_described_once() -> None:
    said = [row[:3] for row in describe()]
    assert len(set(said)) == len(said)
    assert {row[:2] for row in said} == set(itertools.product(CHANGES, CHANGES))


@pytest.mark.parametrize(("mine", "theirs", "policy"), list(itertools.product(CHANGES, CHANGES, OVERLAP_POLICIES)))
def test_rules_are_a_function_of_all_three(mine: Change, theirs: Change, policy: OnOverlap) -> None:
    found = rules(mine, theirs, policy)
    assert len({rule.condition for rule in found}) == len(found), "a condition asked twice could be answered in two ways"
    assert all(rule.reason for rule in found)


def test_appends_stand_beside_compaction_whatever_the_policy() -> None:
    assert all(rules("append", "compact", policy) == () for policy in OVERLAP_POLICIES if policy != "replace")


def test_what_replaces_rows_is_decided_again_where_its_segments_went() -> None:
    """An append that replaces buckets, and every rewrite, reads segments; a compaction that came first has laid them out anew."""
    for found in (rules("append", "compact", "replace"), rules("rewrite", "compact", "reject")):
        assert [(rule.condition, rule.answer) for rule in found] == [("same segments", "rebases")]


def test_only_the_policy_decides_about_overlapping_appends() -> None:
    def answer(policy: OnOverlap) -> list[str]:
        return [rule.answer for rule in rules("append", "append", policy) if rule.condition == "same buckets"]

    answers = [answer(policy) for policy in ("reject", "skip", "replace", "allow")]
    assert answers == [["conflicts"], ["rebases"], ["rebases"], []]
