"""Random maintenance of a Delta table among random changes: no row is lost or doubled, and what is within its retention can be read."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gapless.errors import CorruptTable, VersionNotFound
from gapless.model.instant import NS_PER_DAY
from support.clocked_delta import SCHEMA, ClockedDelta, numbered
from support.delta_rows import counted, counted_table

WITH_DAY = SCHEMA.append(pa.field("day", pa.string()))
FILES_DAYS = 7
KINDS = {
    "plain": {},
    "vectors": {"delta.enableDeletionVectors": "true"},
    "feed": {"delta.enableChangeDataFeed": "true", "delta.enableDeletionVectors": "true"},
    "mapped": {"delta.columnMapping.mode": "id", "delta.enableInCommitTimestamps": "true", "delta.checkpointInterval": "3"},
}

acts = st.one_of(
    st.tuples(st.just("append"), st.lists(st.integers(0, 30), min_size=1, max_size=4)),
    st.tuples(st.just("delete"), st.integers(0, 30)),
    st.tuples(st.just("compact"), st.just(0)),
    st.tuples(st.just("zorder"), st.sampled_from(["z", "hilbert"])),
    st.tuples(st.just("restore"), st.integers(0, 20)),
    st.tuples(st.just("vacuum"), st.just(0)),
    st.tuples(st.just("checkpoint"), st.just(0)),
    st.tuples(st.just("cleanup"), st.just(0)),
    st.tuples(st.just("wait"), st.sampled_from([0.5, 3, 8, 25])),
)


@dataclass
class Model:
    """What each version held, and when it ceased to be the newest."""

    table: ClockedDelta
    rows: list[Counter[int]] = field(default_factory=lambda: [Counter()])
    ended_ns: list[int] = field(default_factory=list)

    def act(self, name: str, given_: object) -> None:
        handle, now = self.table.table, Counter(self.rows[-1])
        match name, given_:
            case "append", list() as ids:
                handle.append(numbered(*ids, schema=WITH_DAY))
                now.update(ids)
            case "delete", int() as below:
                handle.delete(f"id between {below} and {below + 4}")
                now = Counter({one: count for one, count in now.items() if not below <= one <= below + 4})
            case "compact", _:
                handle.compact()
            case "zorder", str() as curve:
                handle.zorder(["id", "v"], curve=curve)
            case "restore", int() as version:
                now = self.restore(version, now)
            case "vacuum", _:
                handle.vacuum(dry_run=False)
            case "checkpoint", _:
                handle.checkpoint()
            case "cleanup", _:
                handle.cleanup_log()
            case "wait", days:
                assert isinstance(days, (int, float))
                self.table.wait(days=days)
        self.note(now)

    def restore(self, version: int, now: Counter[int]) -> Counter[int]:
        version %= len(self.rows)
        try:
            self.table.table.restore(version)
        except (VersionNotFound, CorruptTable):
            assert self.age_days(version) > FILES_DAYS, "what a vacuum kept can be restored"
            return now
        return self.rows[version]

    def note(self, now: Counter[int]) -> None:
        """Each act changes rows by one commit at most; the two of a vacuum change none."""
        for _ in range(len(self.rows), self.table.open().version + 1):
            self.ended_ns.append(self.table.clock.ns)
            self.rows.append(now)
        assert self.rows[-1] == now

    def age_days(self, version: int) -> float:
        """How long ago a version ceased to be the newest."""
        ended = self.ended_ns[version] if version < len(self.ended_ns) else self.table.clock.ns
        return (self.table.clock.ns - ended) / NS_PER_DAY

    def check(self) -> None:
        newest = self.table.open()
        assert Counter(newest.scan().to_arrow().column("id").to_pylist()) == self.rows[-1]
        assert newest.count() == self.rows[-1].total()
        for version in range(len(self.rows)):
            try:
                found = Counter(newest.at(version).scan().to_arrow().column("id").to_pylist())
            except VersionNotFound:
                assert self.age_days(version) > FILES_DAYS
                continue
            assert found == self.rows[version], version

    def check_feed(self) -> None:
        """From some version on the feed is whole, and leads to what the table holds."""
        newest = self.table.open()
        first = next(version for version in range(len(self.rows) + 1) if self.is_told(version))
        # What the version before it changed is told from files that were live before that one.
        assert first < 2 or self.age_days(first - 2) > FILES_DAYS
        if 0 < first < len(self.rows):
            held = Counter({repr(one): count for one, count in self.rows[first - 1].items()})
            for row in newest.changes(first).to_arrow().to_pylist():
                held[repr(row["id"])] += 1 if row["_change_type"] in ("insert", "update_postimage") else -1
            assert +held == Counter({repr(one): count for one, count in self.rows[-1].items()})

    def is_told(self, first: int) -> bool:
        try:
            self.table.open().changes(first).to_arrow()
        except VersionNotFound:
            return False
        return True


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("partition_by", [(), ("day",)])
@settings(max_examples=12, deadline=None)
@given(plan=st.lists(acts, min_size=4, max_size=14))
def test_maintenance_loses_no_row_and_keeps_what_is_retained(
    kind: str, partition_by: tuple[str, ...], plan: list[tuple[str, object]]
) -> None:
    model = Model(ClockedDelta(KINDS[kind], partition_by=partition_by, schema=WITH_DAY))
    for name, given_ in plan:
        model.act(name, given_)
    model.check()
    if kind == "feed":
        model.check_feed()
    whole = counted([{"id": one, "v": f"v{one}", "day": f"d{one % 2}"} for one in model.rows[-1].elements()])
    assert counted_table(model.table.open().scan().to_arrow()) == whole
