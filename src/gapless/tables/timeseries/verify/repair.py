"""`repair` for time-series tables: plan what repairs a table from what `verify` found, and apply the plan where asked."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import pyarrow as pa

from gapless.coverage.bucket import index_grid
from gapless.coverage.codec import encode, index_sidecar
from gapless.errors import CorruptTable, GaplessError, ObjectExists, ObjectNotFound, StoreError
from gapless.files.pages.footer import checksum
from gapless.files.read.source import open_segment
from gapless.formats.timeseries.actions import TableState
from gapless.formats.timeseries.checkpoint.part_reading import remade
from gapless.formats.timeseries.format import TIME_SERIES
from gapless.log.snapshot import load
from gapless.model.protocols import Store
from gapless.model.schema import adopt_schema, entity_types
from gapless.model.segment import Segment, SidecarCoverage
from gapless.publish.sources.timeseries import TimeSeriesSource
from gapless.runtime.environment import Environment
from gapless.tables.shared.findings import Finding, RepairReport, Step
from gapless.tables.shared.publication.check import steps_to_mend
from gapless.tables.shared.publication.publications import Publications
from gapless.tables.timeseries.verify.log_fold import Entry
from gapless.tables.timeseries.verify.log_repair import fill_versions
from gapless.tables.timeseries.verify.segment_check import observe
from gapless.tables.timeseries.verify.verify import Examination, examine_table, verify_table

DAMAGED_FOLDER = f"{TIME_SERIES.folder}/_damaged"
"""Where replaced and removed files of a log are kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Act:
    """A step with what it takes to do it."""

    step: Step
    how: Literal["create", "overwrite", "delete"]
    data: bytes = b""
    keep: str = ""
    """Where the object's present bytes are kept first; empty where they need not be."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RepairPlan:
    """What would repair a table, and what nothing here repairs."""

    acts: tuple[Act, ...]
    left: tuple[Finding, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Remedies:
    """What can be made again, gathered before a plan is made."""

    coverage: Mapping[str, bytes]
    """Sidecars that were rebuilt from whole rows, and indexes from whole sidecars, that have the checksum the log names if it names one."""
    parts: Mapping[str, bytes]
    """Lost parts of log checkpoints that could be made again from the commits, by path."""
    fillers: tuple[Entry, ...] | str
    """Commits for lost versions, or why there are none."""


def repair_table(env: Environment, *, apply: bool = False, accept_loss: bool = False, deep: bool = False) -> RepairReport:
    """Repair what can be repaired, or only say what would be done. Raises StoreError."""
    examined = examine_table(env.store, deep=deep)
    token = env.ids.uuid()
    coverage = dict(_rebuilt_coverage(env.store, examined))
    coverage |= dict(_rebuilt_indexes(env.store, examined, coverage))
    remade_parts = {ref.path: env.drive(remade(TIME_SERIES, ref)) for ref in examined.view.lost_parts}
    parts = {path: data for path, data in remade_parts.items() if data is not None}
    remedies = Remedies(coverage=coverage, parts=parts, fillers=_fillers(env, examined, token))
    plan = plan_repair(examined, remedies, accept_loss=accept_loss, token=token)
    steps = tuple(act.step for act in plan.acts)
    again = steps_to_mend(examined.findings)
    if not apply:
        published = {step.path for step in again}
        left = tuple(one for one in plan.left if one.path not in published)
        return RepairReport(url=env.store.url, applied=False, steps=(*steps, *again), left=left)
    taken = tuple(act.step for act in plan.acts if _apply(env.store, act))
    if again and (newest := env.drive(load(TIME_SERIES))) is not None:
        Publications(env).publish(TimeSeriesSource(env, newest), mend=True)
        taken += again
    left = verify_table(env.store, deep=deep).problems
    return RepairReport(url=env.store.url, applied=True, steps=taken, left=left)


# -- the plan, pure ----------------------------------------------------------------------------------------------------


def plan_repair(examined: Examination, remedies: Remedies, *, accept_loss: bool, token: str) -> RepairPlan:
    """What repairs the findings. `token` makes the names of kept files unique. Pure."""
    planner = _Planner(examined, remedies, token)
    filled = planner.plan_commits() if accept_loss else []
    kept = planner.plan_parts()
    planner.plan_checkpoints(kept)
    planner.plan_hint(filled)
    planner.plan_coverage()
    repaired = {act.step.path for act in planner.acts} | ({TIME_SERIES.folder} if filled else set())
    repaired |= {TIME_SERIES.checkpoint_path(version) for version, whole in kept.items() if whole}
    left = (one for one in examined.findings if one.severity == "problem" and one.path not in repaired)
    explained = tuple(_explained(finding, remedies, accept_loss=accept_loss) for finding in left)
    return RepairPlan(acts=tuple(planner.acts), left=explained)


@dataclass(frozen=True, slots=True)
class _Planner:
    """A plan in the making."""

    examined: Examination
    remedies: Remedies
    token: str
    acts: list[Act] = field(default_factory=list)

    def plan_commits(self) -> list[int]:
        """Commits under the numbers of lost ones; the files of damaged ones are kept. Gives the versions."""
        if isinstance(self.remedies.fillers, str):
            return []
        for version, commit, time_ns in self.remedies.fillers:
            told = "with what a later log checkpoint or the segments tell of it"
            holds = told if commit.actions else "which is empty: what it did is lost"
            what, path = f"put a commit under the number of version {version}, {holds}", TIME_SERIES.path_of(version)
            data = TIME_SERIES.encode(commit, version, time_ns)
            if version in self.examined.view.damaged:
                keep = self._kept(path)
                step = Step(act="set-aside", path=path, what=f"{what}; keep the damaged file as {keep}")
                self._overwrite(step, data, keep)
            else:
                self.acts.append(Act(step=Step(act="fill-version", path=path, what=what), how="create", data=data))
        return [version for version, _, _ in self.remedies.fillers]

    def plan_parts(self) -> dict[int, bool]:
        """Lost parts that can be made again are. Gives the versions of checkpoints that stay, though they lack parts, and whether those come
        back: of a log that does not begin with version 1, one that lacks a part still tells more than none.
        """
        view = self.examined.view
        for path, data in self.remedies.parts.items():
            what = f"write the part {path} of a log checkpoint anew, from the commits"
            self._overwrite(Step(act="write-part", path=path, what=what), data, self._kept(path))
        begins_later = view.base is not None or any(1 in run for run in view.missing)
        whole = {version: lost <= self.remedies.parts.keys() for version, lost in view.lacking.items()}
        return {version: repaired for version, repaired in whole.items() if repaired or begins_later}

    def plan_checkpoints(self, kept: Mapping[int, bool]) -> None:
        """Checkpoints that must not be believed go; the hint then names one that may be."""
        for version in self.examined.view.bad_checkpoints:
            if version not in kept:
                path = TIME_SERIES.checkpoint_path(version)
                keep = self._kept(path)
                what = f"remove the log checkpoint of version {version}; keep it as {keep}"
                self.acts.append(Act(step=Step(act="remove-checkpoint", path=path, what=what), how="delete", keep=keep))
        if not any(finding.code == "checkpoint-hint" for finding in self.examined.findings):
            return
        path, good = TIME_SERIES.last_checkpoint, self.examined.view.checkpoints
        if good:
            step = Step(act="write-checkpoint-hint", path=path, what=f"let _last_checkpoint name version {good[-1]}")
            self._overwrite(step, json.dumps({"version": good[-1]}).encode())
        else:
            step = Step(act="write-checkpoint-hint", path=path, what="remove _last_checkpoint: there is no log checkpoint")
            self.acts.append(Act(step=step, how="delete"))

    def plan_hint(self, filled: Sequence[int]) -> None:
        """CURRENT names the newest version, once that can be read."""
        view = self.examined.view
        newest = max(view.newest, *filled) if filled else view.newest
        behind = any(finding.path == TIME_SERIES.hint for finding in self.examined.findings) or view.hinted < newest
        if newest == 0 or not behind or view.hinted > newest or (newest in view.damaged and newest not in filled):
            return
        step = Step(act="write-hint", path=TIME_SERIES.hint, what=f"let CURRENT name version {newest}")
        self._overwrite(step, b"%d\n" % newest)

    def plan_coverage(self) -> None:
        """Lost coverage and its index come back where they could be made again."""
        rebuilt = self.remedies.coverage
        for segment in self.examined.lost_coverage:
            sidecar = segment.coverage
            if isinstance(sidecar, SidecarCoverage) and sidecar.path in rebuilt:
                what = f"write the coverage of segment {segment.path} anew, from its rows"
                step = Step(act="write-coverage", path=sidecar.path, what=what)
                self._overwrite(step, rebuilt[sidecar.path], "" if sidecar.checksum else self._kept(sidecar.path))
        for segment in self.examined.lost_indexes:
            sidecar = segment.coverage
            if isinstance(sidecar, SidecarCoverage) and sidecar.index_path in rebuilt:
                what = f"write the coverage index of segment {segment.path} anew, from its coverage"
                step = Step(act="write-coverage", path=sidecar.index_path, what=what)
                self._overwrite(step, rebuilt[sidecar.index_path])

    def _overwrite(self, step: Step, data: bytes, keep: str = "") -> None:
        self.acts.append(Act(step=step, how="overwrite", data=data, keep=keep))

    def _kept(self, path: str) -> str:
        return f"{DAMAGED_FOLDER}/{path.rpartition('/')[2]}.{self.token}"


def _explained(finding: Finding, remedies: Remedies, *, accept_loss: bool) -> Finding:
    """A finding that stays, saying why where a remedy was looked for."""
    if finding.mend == "accept-loss" and isinstance(remedies.fillers, str):
        return replace(finding, mend="no", what=f"{finding.what}; no commit can be put in its place: {remedies.fillers}")
    return replace(finding, mend="no") if finding.mend == "repair" or accept_loss else finding


# -- the environment -----------------------------------------------------------------------------------------------------------


def _fillers(env: Environment, examined: Examination, token: str) -> tuple[Entry, ...] | str:
    view = examined.view
    if not view.missing and not view.damaged:
        return "none is lost"
    if any(finding.code == "commit-unsupported" for finding in view.findings):
        return "another commit asks for a newer release"
    state = view.state
    recovered = None if state is None or state.meta.schema is not None else _schema_of_rows(env.store, state)
    return fill_versions(view, recovered, env.clock.now_ns(), token)


def _schema_of_rows(store: Store, state: TableState) -> pa.Schema | None:
    """The columns as the first readable live segment stores them."""
    for segment in state.segments:
        try:
            with open_segment(store, segment) as file:
                return adopt_schema(file.schema_arrow, state.meta.index)
        except StoreError:
            raise
        except GaplessError:
            continue
    return None


def _rebuilt_coverage(store: Store, examined: Examination) -> Iterator[tuple[str, bytes]]:
    """Sidecars made again from the rows of sound segments, those that are what the log says they were."""
    state = examined.view.state
    for segment in examined.lost_coverage:
        sidecar = segment.coverage
        if state is None or segment.path in examined.unsound or not isinstance(sidecar, SidecarCoverage):
            continue
        data = _coverage_bytes(store, segment, state)
        if data is not None and sidecar.checksum in (None, checksum(data)):
            yield sidecar.path, data


def _rebuilt_indexes(store: Store, examined: Examination, rebuilt: Mapping[str, bytes]) -> Iterator[tuple[str, bytes]]:
    """Indexes made again from whole sidecars, of which some were rebuilt themselves: those that are what the log says they were."""
    state = examined.view.state
    for segment in examined.lost_indexes:
        sidecar = segment.coverage
        if state is None or state.meta.schema is None or not isinstance(sidecar, SidecarCoverage):
            continue
        try:
            data = rebuilt[sidecar.path] if sidecar.path in rebuilt else store.get(sidecar.path)
            index = index_sidecar(data, entity_types(state.meta.schema, state.meta.index))
        except (CorruptTable, ObjectNotFound):
            continue
        if index is not None and checksum(index) == sidecar.index_checksum:
            yield sidecar.index_path, index


def _coverage_bytes(store: Store, segment: Segment, state: TableState) -> bytes | None:
    schema, index = state.meta.schema, state.meta.index
    if schema is None:
        return None
    keys = pa.schema([schema.field(name) for name in index.keys])
    try:
        observed = observe(store, segment, keys, index, index_grid(index))
    except CorruptTable:
        return None
    return encode(observed.coverage, entity_types(schema, index))


def _apply(store: Store, act: Act) -> bool:
    """Do one step; False where it turned out to be done, because someone brought the file back meanwhile."""
    path = act.step.path
    if act.step.act == "set-aside" and _is_whole(store, path):
        return False
    if act.keep:
        with contextlib.suppress(ObjectNotFound):
            store.put(act.keep, store.get(path))
    match act.how:
        case "delete":
            store.delete(path)
        case "overwrite":
            store.put(path, act.data, mode="overwrite")
        case "create":
            try:
                store.put(path, act.data)
            except ObjectExists:
                return False
    return True


def _is_whole(store: Store, path: str) -> bool:
    """Whether a commit can be read after all: its writer was still at work, or someone repaired it."""
    version = TIME_SERIES.version_of(path)
    try:
        TIME_SERIES.decode(store.get(path), version or 0)
    except (CorruptTable, ObjectNotFound):
        return False
    return True
