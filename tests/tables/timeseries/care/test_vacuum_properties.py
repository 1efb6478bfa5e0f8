"""Vacuum against a model that remembers every version: what one that is kept has stays, what only the others had goes."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from gapless.formats.timeseries.actions import (
    Action,
    AddSegment,
    Commit,
    ExpireVersions,
    ForgetSegments,
    RemoveSegment,
    SetTag,
    TableMeta,
    UpdateTableMeta,
)
from gapless.formats.timeseries.format import TIME_SERIES
from gapless.log.format import Snapshot
from gapless.model.index import FixedWidth, IndexSpec
from gapless.model.protocols import ObjectInfo
from gapless.model.segment import Bounds, Segment, SidecarCoverage
from gapless.tables.shared.vacuum import Limits
from gapless.tables.timeseries.care.vacuum_plan import plan_vacuum

META = TableMeta(
    index=IndexSpec(column="ts", type="timestamp", bucket=FixedWidth(3_600_000_000_000), entity=(), timezone=None),
    schema=None,
    created_ns=0,
)
FILES = 6


def data_path(number: int) -> str:
    return f"data/{number:08x}-1234-4234-8234-123456789abc-0_0-0-0_19700101000000000.parquet"


def sidecar_path(number: int) -> str:
    return f"_coverage/segments/{number:08x}-1234-4234-8234-123456789abc.roar"


def segment(number: int) -> Segment:
    coverage = SidecarCoverage(sidecar_path(number)) if number % 2 else None
    return Segment(path=data_path(number), rows=1, size=1, bounds=Bounds(first=0, last=0), coverage=coverage)


@dataclass
class Model:
    """Every version's files, as sets; commit times are the versions themselves."""

    live: list[frozenset[int]] = field(default_factory=lambda: [frozenset(), frozenset()])
    """By version, from 0, which there is not."""
    tags: dict[str, int] = field(default_factory=dict)
    earliest: int = 1
    entries: list[tuple[int, Commit, int]] = field(default_factory=list)
    forgotten: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.entries.append((1, Commit(id="", operation="create", actions=(UpdateTableMeta(META),)), 1))

    @property
    def newest(self) -> int:
        return len(self.live) - 1

    def commit(self, action: Action, live: frozenset[int]) -> None:
        self.live.append(live)
        self.entries.append((self.newest, Commit(id="", operation="x", actions=(action,)), self.newest))

    def kept(self) -> list[int]:
        return [v for v in range(1, self.newest + 1) if v >= self.earliest or v in self.tags.values()]

    def needed(self) -> set[int]:
        return {number for version in self.kept() for number in self.live[version]}

    def unneeded_since(self, number: int) -> int:
        """When it was removed; when it was written, at 0, where no version had it or the log has forgotten it."""
        if number in self.forgotten:
            return 0
        ends = (v for v in range(1, self.newest + 1) if number in self.live[v - 1] and number not in self.live[v])
        return max(ends, default=0)

    def step(self, what: str, number: int) -> None:
        now = self.live[-1]
        match what:
            case "add" if number not in now and number not in self.forgotten:
                self.commit(AddSegment(segment(number)), now | {number})
            case "remove" if number in now:
                self.commit(RemoveSegment(data_path(number)), now - {number})
            case "tag" if number + 1 in self.kept():
                self.commit(SetTag(f"t{number % 2}", number + 1), now)
                self.tags[f"t{number % 2}"] = number + 1
            case "untag" if f"t{number % 2}" in self.tags:
                self.commit(SetTag(f"t{number % 2}", None), now)
                del self.tags[f"t{number % 2}"]
            case "expire" if self.newest - number >= self.earliest:
                before = self.newest - number
                self.commit(ExpireVersions(before), now)
                self.earliest = before
            case "vacuum":
                gone = {n for n in range(FILES) if n not in self.needed()}
                if gone:
                    self.commit(ForgetSegments(tuple(data_path(n) for n in sorted(gone))), now)
                    self.forgotten |= gone


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["add", "add", "remove", "remove", "tag", "untag", "expire", "vacuum"]), st.integers(0, FILES - 1)
    ),
    max_size=30,
)


@given(STEPS, st.integers(0, 12), st.booleans())
def test_what_a_kept_version_has_stays_and_the_rest_goes(
    steps: list[tuple[str, int]], older_than: int, through_a_checkpoint: bool
) -> None:
    model = Model()
    for what, number in steps:
        model.step(what, number)
    state = TIME_SERIES.replay(None, model.entries)
    if through_a_checkpoint:
        data = TIME_SERIES.encode_checkpoint(Snapshot(model.newest, model.newest, state))
        state = TIME_SERIES.decode_checkpoint(data, model.newest).state
    stored = [ObjectInfo(path=p(n), size=1, modified_ns=0) for n in range(FILES) for p in (data_path, sidecar_path)]
    now_ns = model.newest + 1
    plan = plan_vacuum(state, stored, Limits(now_ns=now_ns, older_than_ns=older_than, horizon_ns=0))

    doomed = {n for n in range(FILES) if data_path(n) in plan.paths_to_delete}
    assert {n for n in range(FILES) if sidecar_path(n) in plan.paths_to_delete} == doomed, (
        "a segment and its coverage share their fate"
    )
    assert not doomed & model.needed()
    for number in set(range(FILES)) - model.needed():
        assert (number in doomed) is (now_ns - model.unneeded_since(number) >= older_than)
    assert {path for path in plan.forget if path in {data_path(n) for n in range(FILES)}} == {data_path(n) for n in doomed}
    reasons = {entry.path: entry for entry in plan.entries}
    for number in model.needed():
        entry = reasons[data_path(number)]
        if number in model.live[-1]:
            assert entry.reason == "live"
        else:
            assert entry.version in model.kept()
            assert number in model.live[entry.version or 0]
            assert entry.tag is None or model.tags[entry.tag] == entry.version
