"""What an Iceberg table remembers of checkpoints, of apps with any name."""

from __future__ import annotations

import pytest

from gapless.formats.iceberg.operations import Applied, Operations
from gapless.model.operation import SequenceId, Tally


@pytest.mark.parametrize("app", ["orders/trips#1", 'spark stream ["/data/checkpoint","id","app"]', "sha256:x", "a" * 400])
def test_properties_and_summaries_each_say_the_highest_checkpoint_of_each_app(app: str) -> None:
    one = Applied(operation=SequenceId(app, 7), kind="append", version=3, tally=Tally(rows=4))
    other = Applied(operation=SequenceId("other", 1), kind="upsert", version=4)
    assert all(len(name) <= 255 for name in one.remembered)
    by_property = Operations(properties={**one.remembered, **other.remembered, "owner": "ada"}, snapshots=[])
    by_summary = Operations(properties={}, snapshots=[(4, other.summary), (3, one.summary), (2, {"owner": "ada"})])
    for known in (by_property, by_summary):
        assert known.last(app) == one
        assert sorted(found.operation.app for found in known.all()) == sorted((app, "other"))
        assert known.recognise(SequenceId(app, 7)) == one
        assert known.recognise(SequenceId(app, 8)) is None
