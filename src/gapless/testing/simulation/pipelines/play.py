"""One simulated history of pipelines, all of it decided by a seed: `simulate_pipelines(7)`.

Writers and maintenance work on the source's table and the sink's, while processes run pipelines between them, die, hang and are started
again. Once it is over, each pipeline is run to its end without faults; then all that the sink's store has must be needed.
"""

from __future__ import annotations

import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from random import Random
from typing import Any

from gapless.errors import CommitConflict, CorruptTable, GaplessError, LogWarning, VersionNotFound
from gapless.runtime.environment import Environment
from gapless.store.open import probe_put_if_absent
from gapless.testing.simulation.audit import audit
from gapless.testing.simulation.pipelines.actors import Host, JumpingClock, NotedSink, act, excuse, may_run_again
from gapless.testing.simulation.pipelines.audit import check_hands, check_pipeline, check_runs, start_of
from gapless.testing.simulation.pipelines.draw import PipelineScenario, draw_pipelines
from gapless.testing.simulation.pipelines.stores import URL, CheckpointWatch, PartedStore
from gapless.testing.simulation.pipelines.tasks import ByHand, Pipeline, PipelineHistory, RunPipeline
from gapless.testing.simulation.process import Kind
from gapless.testing.simulation.series import to_batch
from gapless.testing.simulation.simulation import SKEWS_NS, Run, World, small_parts
from gapless.testing.simulation.tasks import Appending, History, Sent
from gapless.testing.simulation.timeline import SimClock, SimIds, Timeline, seeded
from gapless.testing.simulation.watch import Watched, WatchedStore
from gapless.testing.store.stores import DictStore, Faults, SimStore, Step

NAME = "pipeline"
LIVES = 160
"""Within how many store calls a process dies that does."""
JUMPS_NS = (0, 0, 1_800 * 10**9, -1_800 * 10**9)
"""By how much a clock is set now and then."""
MONTH_S = 30 * 86_400.0
SETTLING = 8
"""How often each pipeline is run at the end, at most."""


def simulate_pipelines(seed: int, *, scenario: PipelineScenario | None = None) -> Run:
    """Play the history that `seed` decides, and audit it; `scenario` replaces what the seed would draw. Raises nothing that a fault may
    cause; what should not be is in `Run.faults`.
    """
    random = seeded(seed)
    scenario = scenario or draw_pipelines(random, seed)
    with ExitStack() as stack, warnings.catch_warnings():
        warnings.simplefilter("ignore", LogWarning)
        stack.enter_context(small_parts())
        for kind in {scenario.source.name: scenario.source, scenario.sink.name: scenario.sink}.values():
            stack.enter_context(kind.surroundings(seed))
        play = _Play(scenario, random)
        faults = play.run()
    return Run(kind=NAME, seed=seed, trace=tuple(play.trace), history=play.of_sink, faults=tuple(faults))


class _Play:
    """The tables, stores and actors of one run."""

    def __init__(self, scenario: PipelineScenario, random: Random) -> None:
        self.scenario, self._random = scenario, random
        self.trace: list[Step] = []
        self.timeline = Timeline()
        self.of_source, self.of_sink = History(), PipelineHistory()
        self.source, self.sink = self._watched(scenario.source), self._watched(scenario.sink)
        self.checkpoints = CheckpointWatch(DictStore(self._now_ns), self.sink, self._now_ns)
        parts = {"source": self.source, "sink": self.sink, "checkpoints": self.checkpoints}
        self.store = PartedStore(parts)
        for kind, store, of_table in (
            (scenario.source, self.source, scenario.of_source),
            (scenario.sink, self.sink, scenario.of_sink),
        ):
            ids = SimIds(seeded(random.getrandbits(64)))
            kind.make(Environment(store=store, clock=SimClock(self.timeline), ids=ids), of_table)
        self._begin()
        probe_put_if_absent(_AtRoot(DictStore()))  # once and for all of this URL

    def _begin(self) -> None:
        """Append what pipelines that only delete may delete."""
        rows = tuple(row for pipeline in self.scenario.pipelines for row in pipeline.initial)
        if not rows:
            return
        ids, started_ns = SimIds(seeded(3)), self.timeline.now_ns
        table = self.scenario.sink.open(Environment(store=self.sink, clock=SimClock(self.timeline), ids=ids))
        table.append(to_batch(rows))
        sent = Sent(
            actor="first",
            intent=Appending(rows=rows, on_overlap="allow"),
            outcome="unknown",
            ids=frozenset(ids.given),
            started_ns=started_ns,
            ended_ns=self.timeline.now_ns,
        )
        self.of_sink.sent.append(sent)

    def _now_ns(self) -> int:
        return self.timeline.now_ns

    def _watched(self, kind: Kind) -> Watched:
        return kind.watch(DictStore(self._now_ns), self._now_ns)

    def run(self) -> list[str]:
        """Play it; what is wrong."""
        scenario = self.scenario
        worlds = [
            World(scenario.source, self.timeline, self.source, self.of_source, scenario.of_source, self._random),
            World(scenario.sink, self.timeline, self.sink, self.of_sink, scenario.of_sink, self._random),
            World(scenario.sink, self.timeline, self.store, self.of_sink, scenario.of_sink, self._random),
        ]
        for world in worlds:
            world.trace = self.trace
        for world in worlds[:2]:
            world.spawn()
        worlds[2].plan_outage()
        for name, tasks in scenario.runs.items():
            worlds[2].spawn_actor(name, tasks, act, partial(self._start_host, worlds[2]), may_run_again)
        self.timeline.run()
        found = self._audit()
        if not found:
            try:
                found += self._settle() or self._audit() or [*self._check_swept()]
            except Exception:  # noqa: BLE001 - whatever it is, it is a fault
                found.append(f"once all was over: {traceback.format_exc()}")
        return found

    # -- processes -----------------------------------------------------------------------------------------------------

    def _start_host(self, world: World, name: str, random: Random) -> Host:
        store = world.start_store(name, random, lives=LIVES)
        clock = JumpingClock(store, skew_ns=random.choice(SKEWS_NS), jump_ns=random.choice(JUMPS_NS))
        return self._host(store, clock, SimIds(seeded(random.getrandbits(64))))

    def _host(self, store: SimStore, clock: SimClock, ids: SimIds) -> Host:
        return Host(
            source=self.scenario.source,
            sink=self.scenario.sink,
            store=store,
            clock=clock,
            ids=ids,
            history=self.of_sink,
            deadline_s=self.scenario.of_source.deadline_s,
            excused=self._is_excused,
        )

    def _is_excused(self, error: GaplessError, task: RunPipeline) -> bool:
        return excuse(error, coordinators=self.scenario.coordinators(task.pipeline), cleaned=self.scenario.cleaned)

    # -- audit ---------------------------------------------------------------------------------------------------------

    def _audit(self) -> list[str]:
        scenario = self.scenario
        source, sink = scenario.source.read_ledger(self.source), scenario.sink.read_ledger(self.sink)
        found = [f"source: {fault}" for fault in audit(source, self.of_source, deadline_s=scenario.of_source.deadline_s)]
        found += [f"sink: {fault}" for fault in audit(sink, self.of_sink, deadline_s=scenario.of_sink.deadline_s)]
        found += self.checkpoints.faults
        for pipeline in scenario.pipelines:
            faults = check_pipeline(pipeline, source, sink, self.checkpoints, self.of_sink)
            found += (f"{pipeline.app}: {fault}" for fault in faults)
        return [*found, *check_runs(sink, self.of_sink), *check_hands(sink, self.of_sink)]

    # -- the end -------------------------------------------------------------------------------------------------------

    def _settle(self) -> list[str]:
        """Run each pipeline to its end, as one process does that nothing befalls; what is left by hand is taken back."""
        self.timeline.pause(60.0)
        quiet = SimStore(self.store, random=seeded(0), timeline=self.timeline, faults=Faults(delay_s=0.0), name="end")
        host = self._host(quiet, SimClock(self.timeline), SimIds(seeded(1)))
        found: list[str] = []
        for pipeline in self.scenario.pipelines:
            found += (f"{pipeline.app} at the end: {fault}" for fault in self._run_to_end(host, pipeline))
        for task in {ran.task.number: ran.task for ran in self.of_sink.ran if isinstance(ran.task, ByHand)}.values():
            by_hand = NotedSink(host, "hand", task.name, task.mode)
            for prepared in by_hand.pending():
                by_hand.abort(prepared)
        return found

    def _run_to_end(self, host: Host, pipeline: Pipeline) -> Iterator[str]:
        runner: Callable[[], Any] = lambda: host.runner(pipeline).run()  # noqa: E731  # made where it may raise
        for _ in range(SETTLING):
            try:
                report = runner()
            except CommitConflict:
                continue  # what came late is taken back by the next
            except (VersionNotFound, CorruptTable):
                if not self.scenario.cleaned:
                    raise
                return
            if not report.rows:
                break
        else:
            yield f"it did not come to an end in {SETTLING} runs"
        mine = [mark for mark in self.checkpoints.truths() if f"checkpoints/{mark.folder}" == pipeline.folder]
        last = max((mark for mark in mine if mark.body["commit"]), key=lambda mark: mark.number)
        cursor = last.body["checkpoint"]["cursor"]["state"]
        if (cursor["version"], cursor["row"], cursor["whole"]) != (self.source.newest + 1, 0, False):
            yield f"it ended at {cursor}, and the source's newest version is {self.source.newest}"
        assert start_of(pipeline, self.checkpoints, self.of_sink) is not None

    def _check_swept(self) -> Iterator[str]:
        """A month later a vacuum leaves nothing in the sink's store but the log and what its versions need."""
        self.timeline.pause(MONTH_S)
        table = self.scenario.sink.open(Environment(store=self.sink, clock=SimClock(self.timeline), ids=SimIds(seeded(2))))
        before = len(self.sink.faults)
        if isinstance(self.sink, WatchedStore):
            table.expire(keep_versions=1)
        table.vacuum(dry_run=False)
        yield from self.sink.faults[before:]
        newest = self.sink.commits[self.sink.newest]
        needed = {
            path for version in self.sink.commits if _is_kept(newest, version, self.sink) for path in _files(self.sink, version)
        }
        for info in self.sink.inner.list():
            if info.path not in needed and not info.path.startswith((f"{self.sink.log}/", "_log_parts/")):
                yield f"{info.path} is left in the sink's store, which no version needs"


def _is_kept(newest: Any, version: int, watch: Watched) -> bool:
    """Whether a version's files must stay; of a Delta table those of the newest, once its retention is over."""
    return bool(newest.keeps(version)) if isinstance(watch, WatchedStore) else version == watch.newest


def _files(watch: Watched, version: int) -> frozenset[str]:
    landed = watch.commits[version]
    if isinstance(watch, WatchedStore):
        return frozenset(path for files in landed.live.values() for path in files)
    return frozenset(landed.files)


class _AtRoot:
    """A store by the URL of the parts."""

    def __init__(self, inner: DictStore) -> None:
        self._inner = inner

    url = URL

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)
