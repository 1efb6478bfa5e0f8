"""`repair` for Delta tables: what is published in other formats is described again. The log itself is other writers', too, and stays."""

from __future__ import annotations

from gapless.formats.delta.format import DELTA
from gapless.log.snapshot import load
from gapless.publish.sources.delta import DeltaSource
from gapless.runtime.environment import Environment
from gapless.tables.delta.care.verify import verify_delta
from gapless.tables.shared.findings import RepairReport
from gapless.tables.shared.publication.check import steps_to_mend
from gapless.tables.shared.publication.publications import Publications


def repair_delta(env: Environment, *, apply: bool, deep: bool) -> RepairReport:
    """Publish anew what another writer changed, or only say that it would be. Raises as `Publisher.publish`, StoreError."""
    problems = verify_delta(env, deep=deep).problems
    steps = steps_to_mend(problems)
    mended = {step.path for step in steps}
    if not apply:
        left = tuple(one for one in problems if one.path not in mended)
        return RepairReport(url=env.store.url, applied=False, steps=steps, left=left)
    if steps and (newest := env.drive(load(DELTA))) is not None:
        Publications(env).publish(DeltaSource(env, newest), mend=True)
    return RepairReport(url=env.store.url, applied=True, steps=steps, left=verify_delta(env, deep=deep).problems)
