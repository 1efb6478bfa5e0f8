"""The auditor: what must be true of a table after any simulated history."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gapless.errors import CommitConflict, CoverageOverlap
from gapless.model.protocols import Store
from gapless.testing.audit_log import Ledger, Logged, read_ledger
from gapless.testing.history import Bucket, History, Intent, Row, Seen, Sent, buckets_of


def audit(store: Store, history: History, *, deadline_s: float) -> list[str]:
    """Everything that is wrong, a sentence each; nothing where the history and the log agree.

    `store` is the store behind all faults, once nothing is under way any more.
    """
    ledger = read_ledger(store)
    found = [*history.mishaps, *ledger.faults, *_check_commits(ledger, history), *_check_once(ledger, history)]
    for sent in history.sent:
        found += (f"{_name(sent)}: {fault}" for fault in _check_sent(sent, ledger, history, deadline_s))
    for seen in history.seen:
        found += (f"{seen.actor} saw version {seen.version}: {fault}" for fault in _check_seen(seen, ledger, history))
    return found


def _name(sent: Sent) -> str:
    operation = "" if sent.intent.operation_id is None else f" as {sent.intent.operation_id}"
    return f"{sent.actor}'s append of {sent.intent.rows}{operation} ({sent.intent.on_overlap}) was {sent.outcome}"


def _check_commits(ledger: Ledger, history: History) -> Iterator[str]:
    """Each commit holds whole what its senders wanted, and steps on nothing that their policy spares."""
    if len({commit.id for commit in ledger.commits.values()}) < len(ledger.commits):
        yield "two commits have one id"
    for version, commit in ledger.commits.items():
        twice = sorted(_covered_twice(commit, history))
        if commit.policy != "allow" and twice:
            yield f"version {version} ({commit.policy}) covers {twice} twice"
        wanted = tuple(sorted(row for rows in parts_of(commit, history).values() for row in rows))
        if commit.added != wanted:
            yield f"version {version} holds {commit.added} of appends of {wanted}"


def parts_of(commit: Logged, history: History) -> dict[Intent, tuple[Row, ...]]:
    """The intents whose rows a commit holds, in the order in which they were sent, with the rows that it should hold of each."""
    numbers = {number for _, _, number in commit.added}
    parts: dict[Intent, tuple[Row, ...]] = {}
    covered = commit.before
    for sent in history.sent:
        if commit.id in sent.ids and {number for _, _, number in sent.intent.rows} & numbers:
            parts[sent.intent] = rows = to_write(sent.intent, covered)
            covered |= buckets_of(rows)
    return parts


def to_write(intent: Intent, covered: frozenset[Bucket]) -> tuple[Row, ...]:
    """The rows of an intent that a commit should hold: under "skip" those of buckets that were not covered."""
    rows = tuple(sorted(intent.rows))
    return tuple(row for row in rows if not buckets_of((row,)) & covered) if intent.on_overlap == "skip" else rows


def _covered_twice(commit: Logged, history: History) -> frozenset[Bucket]:
    twice, covered = frozenset[Bucket](), commit.before
    for rows in parts_of(commit, history).values():
        twice |= buckets_of(rows) & covered
        covered |= buckets_of(rows)
    return twice


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
    strangers = [
        commit.version for commit in ledger.commits.values() if commit.operation == "append" and commit.id not in known
    ]
    if strangers:
        yield f"no one sent the commits {strangers}"


def _check_sent(sent: Sent, ledger: Ledger, history: History, deadline_s: float) -> Iterator[str]:
    """The answer of one call against what the log holds."""
    mine = [commit.version for commit in ledger.commits.values() if _is_of(commit, sent)]
    if len(mine) > 1:
        yield f"it landed more than once, as {mine}"
    match sent.outcome:
        case "refused":
            if mine:
                yield f"but it landed as version {mine[0]}"
            yield from _check_refusal(sent, ledger, deadline_s)
        case "acknowledged":
            yield from _check_report(sent, ledger, history, mine)


def _is_of(commit: Logged, sent: Sent) -> bool:
    """Whether a commit was made by this call, and in a group commit for this member of it."""
    if commit.id not in sent.ids or not sent.shared:
        return commit.id in sent.ids
    numbers = {number for _, _, number in sent.intent.rows} & {number for _, _, number in commit.added}
    return bool(numbers) or _body_of(commit, sent.intent) is not None


def _body_of(commit: Logged, intent: Intent) -> Any:
    """The commit's `SetTransaction` for an intent; None without."""
    names = [(body, body.get("id", (body.get("app_id"), body.get("sequence")))) for body in commit.operations]
    return next((body for body, name in names if name == intent.operation_id), None)


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


def _check_report(sent: Sent, ledger: Ledger, history: History, mine: list[int]) -> Iterator[str]:
    report = sent.report
    assert report is not None
    commit = ledger.commits.get(report.version)
    if commit is None:
        yield f"as version {report.version}, which the log does not have"
    elif report.already_applied:
        yield from _check_repeated(sent, commit, mine)
    elif mine and commit.version not in mine:
        yield f"as version {report.version}; it landed as {mine}"
    elif commit.id in sent.ids:
        wanted = parts_of(commit, history).get(sent.intent, ())
        left_out = tuple(row for row in sent.intent.rows if row not in wanted)
        counts = (len(wanted), min(1, len(wanted)), len(buckets_of(wanted)), len(left_out), len(buckets_of(left_out)))
        if counts != _counts(report):
            yield f"its report counts {_counts(report)}, and version {commit.version} holds {counts}"
        if left_out and sent.intent.on_overlap != "skip":
            yield f"version {commit.version} lacks {left_out}"
    elif report.rows or sent.intent.operation_id is not None:
        yield f"as version {report.version}, which is another's"
    elif not buckets_of(sent.intent.rows) <= buckets_of(commit.rows):
        yield f"nothing was written, though version {commit.version} lacks some of it"


def _check_repeated(sent: Sent, commit: Logged, mine: list[int]) -> Iterator[str]:
    """What was known already must be there, with the counts of the first time."""
    report, operation = sent.report, sent.intent.operation_id
    assert report is not None
    if mine:
        yield f"it says it was applied before, and landed as {mine}"
    body = _body_of(commit, sent.intent)
    if body is not None and tuple(body["report"].values()) != _counts(report):
        yield f"its report counts {_counts(report)}, and the first time {body['report']}"
    higher = isinstance(operation, tuple) and any(
        other.get("app_id") == operation[0] and other["sequence"] > operation[1] for other in commit.operations
    )
    if body is None and not (higher and not any(_counts(report))):
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
