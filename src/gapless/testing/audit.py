"""The auditor: what must be true of a table after any simulated history."""

from __future__ import annotations

from collections.abc import Iterator

from gapless.errors import CommitConflict, CoverageOverlap
from gapless.model.protocols import Store
from gapless.testing.audit_log import Ledger, Logged, read_ledger
from gapless.testing.history import BUCKET_WIDTH, History, Intent, Row, Seen, Sent, buckets_of


def audit(store: Store, history: History, *, deadline_s: float) -> list[str]:
    """Everything that is wrong, a sentence each; nothing where the history and the log agree.

    `store` is the store behind all faults, once nothing is under way any more.
    """
    ledger = read_ledger(store)
    owners = {number: sent.intent for sent in history.sent for _, _, number in sent.intent.rows}
    found = [*history.mishaps, *ledger.faults, *_check_commits(ledger, owners), *_check_once(ledger, history)]
    for sent in history.sent:
        found += (f"{_name(sent)}: {fault}" for fault in _check_sent(sent, ledger, deadline_s))
    for seen in history.seen:
        found += (f"{seen.actor} saw version {seen.version}: {fault}" for fault in _check_seen(seen, ledger, history))
    return found


def _name(sent: Sent) -> str:
    operation = "" if sent.intent.operation_id is None else f" as {sent.intent.operation_id}"
    return f"{sent.actor}'s append of {sent.intent.rows}{operation} ({sent.intent.on_overlap}) was {sent.outcome}"


def _check_commits(ledger: Ledger, owners: dict[int, Intent]) -> Iterator[str]:
    """Each commit holds one intent's rows, whole, and steps on nothing that its policy spares."""
    if len({commit.id for commit in ledger.commits.values()}) < len(ledger.commits):
        yield "two commits have one id"
    for version, commit in ledger.commits.items():
        intents = {id(owners[number]): owners[number] for _, _, number in commit.added if number in owners}
        if len(intents) > 1 or any(number not in owners for _, _, number in commit.added):
            yield f"version {version} holds rows of {len(intents)} intents, or of none: {commit.added}"
        elif commit.policy != "allow" and buckets_of(commit.added) & commit.before:
            yield f"version {version} ({commit.policy}) covers {sorted(buckets_of(commit.added) & commit.before)} twice"
        elif intents:
            wanted = to_write(next(iter(intents.values())), commit)
            if commit.added != wanted:
                yield f"version {version} holds {commit.added} of an append of {wanted}"


def to_write(intent: Intent, commit: Logged) -> tuple[Row, ...]:
    """The rows of an intent that the commit should hold: under "skip" those of buckets that were not covered before."""
    rows = tuple(sorted(intent.rows))
    if intent.on_overlap != "skip":
        return rows
    return tuple(row for row in rows if not buckets_of((row,)) & commit.before)


def _check_once(ledger: Ledger, history: History) -> Iterator[str]:
    """No row, no job and no sequence twice; sequences only grow."""
    numbers = [number for commit in ledger.commits.values() for _, _, number in commit.added]
    if len(set(numbers)) < len(numbers):
        yield f"rows are there twice: {sorted(n for n in set(numbers) if numbers.count(n) > 1)}"
    jobs: set[str] = set()
    sequences: dict[str, int] = {}
    for commit in ledger.commits.values():
        for body in commit.operations:
            if body.get("id") in jobs:
                yield f"the job {body['id']!r} was done twice, again as version {commit.version}"
            if "app_id" in body and body["sequence"] <= sequences.get(body["app_id"], -1):
                yield f"version {commit.version} takes {body['app_id']!r} back to {body['sequence']}"
            jobs |= {body["id"]} if "id" in body else set()
            sequences |= {body["app_id"]: body["sequence"]} if "app_id" in body else {}
    known = {identifier for sent in history.sent for identifier in sent.ids}
    strangers = [commit.version for commit in ledger.commits.values() if commit.operation == "append" and commit.id not in known]
    if strangers:
        yield f"no one sent the commits {strangers}"


def _check_sent(sent: Sent, ledger: Ledger, deadline_s: float) -> Iterator[str]:
    """The answer of one call against what the log holds."""
    mine = [commit.version for commit in ledger.commits.values() if commit.id in sent.ids]
    if len(mine) > 1:
        yield f"it landed more than once, as {mine}"
    match sent.outcome:
        case "refused":
            if mine:
                yield f"but it landed as version {mine[0]}"
            yield from _check_refusal(sent, ledger, deadline_s)
        case "acknowledged":
            yield from _check_report(sent, ledger, mine)


def _check_refusal(sent: Sent, ledger: Ledger, deadline_s: float) -> Iterator[str]:
    """A refusal has a reason: covered buckets, no space, or a deadline that passed."""
    error = sent.error
    if isinstance(error, CoverageOverlap):
        commit = ledger.commits.get(error.version or 0)
        if sent.intent.on_overlap != "reject" or commit is None or not buckets_of(commit.added) & buckets_of(sent.intent.rows):
            yield f"but version {error.version} does not cover what it wrote: {error}"
        elif {number for _, _, number in commit.added} & {number for _, _, number in sent.intent.rows}:
            yield f"for an overlap with its own rows in version {error.version}"
    if isinstance(error, CommitConflict) and sent.ended_ns - sent.started_ns < deadline_s * 1e9:
        yield f"before the deadline: {error}"


def _check_report(sent: Sent, ledger: Ledger, mine: list[int]) -> Iterator[str]:
    report = sent.report
    assert report is not None
    commit = ledger.commits.get(report.version)
    if commit is None:
        yield f"as version {report.version}, which the log does not have"
    elif report.already_applied:
        yield from _check_repeated(sent, commit, mine)
    elif commit.id in sent.ids:
        wanted = to_write(sent.intent, commit)
        left_out = tuple(row for row in sent.intent.rows if row not in wanted)
        counts = (len(wanted), commit.segments, len(buckets_of(wanted)), len(left_out), len(buckets_of(left_out)))
        if counts != _counts(report):
            yield f"its report counts {_counts(report)}, and version {commit.version} holds {counts}"
    elif report.rows or sent.intent.operation_id is not None or mine:
        yield f"as version {report.version}, which is another's; it landed as {mine}"
    elif not buckets_of(sent.intent.rows) <= buckets_of(commit.rows):
        yield f"nothing was written, though version {commit.version} lacks some of it"


def _check_repeated(sent: Sent, commit: Logged, mine: list[int]) -> Iterator[str]:
    """What was known already must be there, with the counts of the first time."""
    report, operation = sent.report, sent.intent.operation_id
    assert report is not None
    if mine:
        yield f"it says it was applied before, and landed as {mine}"
    bodies = [body for body in commit.operations if operation in (body.get("id"), (body.get("app_id"), body.get("sequence")))]
    if bodies:
        if tuple(bodies[0]["report"].values()) != _counts(report):
            yield f"its report counts {_counts(report)}, and the first time {bodies[0]['report']}"
        return
    higher = isinstance(operation, tuple) and any(
        body.get("app_id") == operation[0] and body["sequence"] > operation[1] for body in commit.operations
    )
    if not higher or any(_counts(report)):
        yield f"version {commit.version} does not hold it, nor a later sequence"


def _counts(report: object) -> tuple[int, ...]:
    names = ("rows", "segments", "buckets", "skipped_rows", "skipped_buckets")
    return tuple(getattr(report, name) for name in names)


def _check_seen(seen: Seen, ledger: Ledger, history: History) -> Iterator[str]:
    """One version as the log has it, and no older one than was promised."""
    commit = ledger.commits.get(seen.version)
    if commit is None:
        yield "the log does not have it"
        return
    if seen.rows is not None and seen.rows != commit.rows:
        yield f"with the rows {seen.rows}, which are {commit.rows}"
    if seen.buckets is not None and seen.buckets != buckets_of(commit.rows):
        yield f"with coverage {sorted(seen.buckets)}, and its rows lie in {sorted(buckets_of(commit.rows))}"
    if seen.fresh:
        acknowledged = (s.report.version for s in history.sent if s.report is not None and s.ended_ns <= seen.started_ns)
        if (newest := max(acknowledged, default=0)) > seen.version:
            yield f"as the newest, though version {newest} had been acknowledged"


__all__ = ["BUCKET_WIDTH", "audit", "to_write"]
