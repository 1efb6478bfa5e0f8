"""The auditor of a simulated history: the log replayed by a model of rows, and every answer that a caller got held against it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gapless.errors import (
    CommitConflict,
    CorruptTable,
    CoverageOverlap,
    InvalidChange,
    InvalidOption,
    SchemaMismatch,
    VersionNotFound,
)
from gapless.testing.simulation.tasks import (
    COLUMNS,
    Appending,
    Bucket,
    History,
    Intent,
    Maintenance,
    Missed,
    OperationName,
    Replacing,
    Restoring,
    Rows,
    Seen,
    Sent,
    Upserting,
    buckets_of,
)
from gapless.testing.simulation.watch import Landed, Ledger, Logged

_DAY_NS = 26 * 3_600 * 10**9


def parts_of(commit: Logged, history: History) -> list[Intent]:
    """The intents that a commit carries out, in the order in which they were sent."""
    return list(dict.fromkeys(sent.intent for sent in history.sent if _is_of(commit, sent)))


def _is_of(commit: Logged, sent: Sent) -> bool:
    """Whether a commit was made by this call, and in a group commit for this member of it."""
    if commit.id not in sent.ids or not sent.shared:
        return commit.id in sent.ids
    numbers = {number for _, _, number in sent.intent.rows} & {number for _, _, number in commit.fresh}
    return bool(numbers) or _body_of(commit, sent.intent) is not None


def _body_of(commit: Logged, intent: Intent) -> Any:
    """The commit's `SetTransaction` for an intent; None without."""
    names = [(body, body.get("id", (body.get("app_id"), body.get("sequence")))) for body in commit.operations]
    return next((body for body, name in names if name == intent.operation_id), None)


def check_sent(sent: Sent, ledger: Ledger, deadline_s: float) -> Iterator[str]:
    """What is wrong with the answer of one call."""
    mine = [commit.version for commit in ledger.commits.values() if _is_of(commit, sent)]
    if len(mine) > 1 and not isinstance(sent.intent, Maintenance):
        yield f"it landed more than once, as {mine}"
    match sent.outcome:
        case "refused":
            if mine and not isinstance(sent.intent, Maintenance):
                yield f"but it landed as version {mine[0]}"
            yield from _check_refusal(sent, ledger, deadline_s)
        case "acknowledged" if isinstance(sent.intent, Appending):
            yield from _check_append(sent, sent.intent, ledger, mine)
        case "acknowledged":
            yield from _check_change(sent, ledger, mine)


def _check_refusal(sent: Sent, ledger: Ledger, deadline_s: float) -> Iterator[str]:
    """A refusal has a reason: covered buckets, no space, a deadline that passed, or something that was not there."""
    error, intent = sent.error, sent.intent
    span = [ledger.commits[known].landed for known in ledger.known_during(sent.started_ns, sent.ended_ns)]
    match error:
        case CoverageOverlap():
            yield from _check_overlap(error, intent, ledger)
            rows = [ledger.rows_at(known) for known in ledger.known_during(sent.started_ns, sent.ended_ns)]
            if not any(buckets_of(one) & buckets_of(intent.rows) for one in rows):
                yield f"though no version meanwhile covers any of it: {error}"
        case CommitConflict() if error.facts.get("reason") == "vacuum":
            if not _is_vacuuming(ledger, sent.started_ns, sent.ended_ns):
                yield f"though every vacuum was done: {error}"
        case CommitConflict() if sent.ended_ns - sent.started_ns < deadline_s * 1e9:
            yield f"before the deadline: {error}"
        case VersionNotFound() if all(landed.keeps(error.version) for landed in span):
            yield f"though version {error.version} is kept: {error}"
        case CorruptTable() if error.path not in ledger.gone:
            yield f"without any damage: {error}"
        case SchemaMismatch() if all(len(commit.landed.columns) <= len(COLUMNS) for commit in ledger.commits.values()):
            yield f"though no column was added: {error}"
        case InvalidOption() | InvalidChange() if not any(_lacks(landed, intent) for landed in span):
            yield f"for no reason: {error}"


def _is_vacuuming(ledger: Ledger, started_ns: int, ended_ns: int) -> bool:
    """Whether a vacuum of the last day (and a little, since clocks are wrong) had not said before a call that it was done."""
    commits = ledger.commits.values()
    early = [commit for commit in commits if commit.operation == "VACUUM END" and commit.landed.landed_ns <= started_ns]
    whole = [commit for commit in early if commit.landed.info.get("operationParameters", {}).get("status") != "FAILED"]
    done = {commit.landed.info["readVersion"] for commit in whole}
    begun = [commit for commit in commits if commit.operation == "VACUUM START" and commit.version not in done]
    return any(started_ns - _DAY_NS <= commit.landed.landed_ns <= ended_ns for commit in begun)


def _check_overlap(error: CoverageOverlap, intent: Intent, ledger: Ledger) -> Iterator[str]:
    commit = ledger.commits.get(error.version or 0)
    rejects = isinstance(intent, Appending) and intent.on_overlap == "reject"
    if not rejects or commit is None or not buckets_of(commit.added) & buckets_of(intent.rows):
        yield f"but version {error.version} does not cover what it wrote: {error}"
    elif {number for _, _, number in commit.added} & {number for _, _, number in intent.rows}:
        yield f"for an overlap with its own rows in version {error.version}"


def _lacks(landed: Landed, intent: Intent) -> bool:
    """Whether a version is not what a change of tags or columns needs."""
    match intent:
        case Maintenance(care="untag", detail=(name,)):
            return name not in landed.tags
        case Maintenance(care="add_column", detail=(name,)):
            return not landed.columns or name in landed.columns
    return False


def _check_append(sent: Sent, intent: Appending, ledger: Ledger, mine: list[int]) -> Iterator[str]:
    report = sent.report
    commit = ledger.commits.get(report.version)
    if commit is None:
        yield f"as version {report.version}, which the log does not have"
    elif report.already_applied:
        yield from _check_repeated(sent, commit, mine, ledger)
    elif mine and commit.version not in mine:
        yield f"as version {report.version}; it landed as {mine}"
    elif commit.id in sent.ids:
        yield from _check_counts(sent, intent, commit, ledger.counts)
    elif report.rows or intent.operation_id is not None:
        yield f"as version {report.version}, which is another's"
    else:
        versions = ledger.known_during(sent.started_ns, sent.ended_ns)
        never = set(intent.rows).intersection(*(intent.to_write(ledger.rows_at(known)) for known in versions))
        if never:
            yield f"nothing was written, though no version meanwhile covers {sorted(never)}"


def _check_counts(sent: Sent, intent: Appending, commit: Logged, names: tuple[str, ...]) -> Iterator[str]:
    wanted = tuple(row for row in intent.rows if row in commit.rows)
    left_out = tuple(row for row in intent.rows if row not in wanted)
    found = {
        "rows": len(wanted),
        "buckets": len(buckets_of(wanted)),
        "skipped_rows": len(left_out),
        "skipped_buckets": len(buckets_of(left_out)),
    }
    counts, told = [found[name] for name in names], [getattr(sent.report, name) for name in names]
    if counts != told:
        yield f"its report counts {told}, and version {commit.version} holds {counts}"


def _check_change(sent: Sent, ledger: Ledger, mine: list[int]) -> Iterator[str]:
    """A change that was acknowledged landed, or had been applied before, or had nothing to change."""
    version = sent.version
    if version is not None and version not in ledger.commits:
        yield f"as version {version}, which the log does not have"
    elif getattr(sent.report, "already_applied", False) and version is not None:
        yield from _check_repeated(sent, ledger.commits[version], mine, ledger)
    elif mine and version is not None and version != mine[-1] and not _gave_up_later(sent, version, mine[-1]):
        yield f"as version {version}; it landed as {mine}"
    elif not mine:
        span = ledger.known_during(sent.started_ns, sent.ended_ns)
        rows = [ledger.rows_at(known) for known in (*span, *(() if version is None else (version,)))]
        if all(sent.intent.after(one, ledger.rows_at) != one for one in rows):
            yield "but nothing landed, and none of the versions meanwhile has nothing to change"


def _gave_up_later(sent: Sent, version: int, landed: int) -> bool:
    """Whether a compaction saw a newer version than its last commit: it gave bins up there, and tells of the table after all of it."""
    return bool(getattr(sent.report, "given_up", ())) and version > landed


def _check_repeated(sent: Sent, commit: Logged, mine: list[int], ledger: Ledger) -> Iterator[str]:
    """What was known already must be there, with the counts of the first time as far as they are kept."""
    report, operation = sent.report, sent.intent.operation_id
    if mine:
        yield f"it says it was applied before, and landed as {mine}"
    if not ledger.remembers and not report.rows and not report.segments:
        if not any(_holds(ledger.commits[version], sent.intent) for version in range(ledger.first, commit.version + 1)):
            yield f"no version up to {commit.version} holds it, nor a later sequence"
        return
    body = _body_of(commit, sent.intent)
    counts = {name: getattr(report, name) for name in body["report"]} if body is not None else {}
    if body is not None and body["report"] != counts:
        yield f"its report counts {counts}, and the first time {body['report']}"
    higher = _holds_later(commit, operation)
    if body is None and not (higher and not getattr(report, "rows", 0)):
        yield f"version {commit.version} does not hold it, nor a later sequence"


def _holds(commit: Logged, intent: Intent) -> bool:
    return _body_of(commit, intent) is not None or _holds_later(commit, intent.operation_id)


def _holds_later(commit: Logged, operation: OperationName) -> bool:
    """Whether a commit holds a later sequence of the operation's app."""
    return isinstance(operation, tuple) and any(
        other.get("app_id") == operation[0] and other["sequence"] > operation[1] for other in commit.operations
    )


def audit(ledger: Ledger, history: History, *, deadline_s: float) -> list[str]:
    """Everything that is wrong, a sentence each; nothing where the history and the log agree.

    `ledger` is the log as it was read once nothing was under way any more.
    """
    found = [*history.mishaps, *ledger.faults, *_check_commits(ledger, history), *_check_once(ledger)]
    for sent in history.sent:
        found += (f"{_name(sent)}: {fault}" for fault in check_sent(sent, ledger, deadline_s))
    for seen in history.seen:
        found += (f"{seen.actor} saw version {seen.version}: {fault}" for fault in _check_seen(seen, ledger, history))
    for missed in history.missed:
        found += (f"{missed.actor} missed version {missed.version}: {fault}" for fault in _check_missed(missed, ledger))
    return found


def _name(sent: Sent) -> str:
    return f"{sent.actor}'s {sent.intent} was {sent.outcome}"


def _check_commits(ledger: Ledger, history: History) -> Iterator[str]:
    """After each commit the table holds what its senders wanted, applied to what it held before."""
    if len({commit.id for commit in ledger.commits.values()}) < len(ledger.commits):
        yield "two commits have one id"
    spared = frozenset[Bucket]()
    for version, commit in ledger.commits.items():
        senders = [sent for sent in history.sent if commit.id in sent.ids]
        if not senders and version > ledger.first:
            yield f"no one sent version {version} ({commit.operation})"
        wanted, fault = _replay(commit, history, ledger)
        yield from fault
        if commit.rows != wanted:
            yield f"version {version} ({commit.operation}) holds {commit.rows} after {commit.before}, and should hold {wanted}"
        if version > ledger.first and commit.landed.columns != (columns := _columns_after(commit, history, ledger)):
            yield f"version {version} ({commit.operation}) has the columns {commit.landed.columns}, and should have {columns}"
        spared |= _allowed(senders)
        if twice := sorted(commit.doubled - spared):
            yield f"version {version} ({commit.operation}) covers {twice} by two segments"


def _replay(commit: Logged, history: History, ledger: Ledger) -> tuple[Rows, list[str]]:
    """The rows that a commit should leave, and what its senders may not have wanted."""
    unseen = set(commit.unseen)
    rows, faults = tuple(row for row in commit.before if row not in unseen), []
    for intent in parts_of(commit, history):
        twice = sorted(buckets_of(rows) & buckets_of(intent.rows))
        if isinstance(intent, Appending) and intent.on_overlap == "reject" and twice:
            faults.append(f"version {commit.version} (reject) covers {twice} twice")
        rows = intent.after(rows, ledger.rows_at)
        if isinstance(intent, Appending) and intent.on_overlap == "skip":
            rows = _less_skipped(rows, intent, commit, history, ledger)
    return tuple(sorted((*rows, *(row for row in commit.before if row in unseen)))), faults


def _columns_after(commit: Logged, history: History, ledger: Ledger) -> tuple[str, ...]:
    """The columns that a commit should leave."""
    columns: tuple[str, ...] = ledger.commits[commit.version - 1].landed.columns
    for intent in parts_of(commit, history):
        match intent:
            case Maintenance(care="add_column", detail=(name,)):
                columns = (*columns, name)
            case Restoring(version=version):
                columns = tuple(ledger.commits[version].landed.columns)
            case Appending() | Upserting() | Replacing() if not columns:
                # It brings those of the version for which it was made, which a restore may have overtaken.
                brought = commit.landed.columns
                columns = brought if brought[: len(COLUMNS)] == COLUMNS else COLUMNS
    return columns


def _less_skipped(rows: Rows, intent: Appending, commit: Logged, history: History, ledger: Ledger) -> Rows:
    """The rows less those that were left out for a bucket which was covered when that was decided, if not when it landed."""
    started_ns = next(sent.started_ns for sent in history.sent if sent.intent == intent and commit.id in sent.ids)
    covered = frozenset[Bucket]().union(
        *(buckets_of(ledger.rows_at(known)) for known in range(ledger.known_at(started_ns), commit.version))
    )
    skipped = {row for row in intent.rows if buckets_of((row,)) & covered} - set(commit.rows)
    return tuple(row for row in rows if row not in skipped)


def _allowed(senders: list[Sent]) -> frozenset[Bucket]:
    """Where the policy "allow" lets two segments cover one bucket."""
    intents = (sent.intent for sent in senders)
    return frozenset[Bucket]().union(
        *(buckets_of(i.rows) for i in intents if isinstance(i, Appending) and i.on_overlap == "allow")
    )


def _check_once(ledger: Ledger) -> Iterator[str]:
    """No row twice in any version, no job and no sequence twice; sequences only grow."""
    jobs: set[str] = set()
    sequences: dict[str, int] = {}
    for commit in ledger.commits.values():
        numbers = [number for _, _, number in commit.rows]
        if len(set(numbers)) < len(numbers):
            yield f"version {commit.version} holds rows twice: {sorted(n for n in set(numbers) if numbers.count(n) > 1)}"
        for body in commit.operations:
            if body.get("id") in jobs:
                yield f"the job {body['id']!r} was done twice, again as version {commit.version}"
            if "app_id" in body and body["sequence"] <= sequences.get(body["app_id"], -1):
                yield f"version {commit.version} takes {body['app_id']!r} back to {body['sequence']}"
            jobs |= {body["id"]} if "id" in body else set()
            sequences |= {body["app_id"]: body["sequence"]} if "app_id" in body else {}


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
    if ledger.expires and seen.asked and not ledger.commits[ledger.known_at(seen.started_ns)].landed.keeps(seen.version):
        yield "though it had expired"
    if seen.fresh:
        acknowledged = (s.version for s in history.sent if s.version is not None and s.ended_ns <= seen.started_ns)
        if (newest := max(acknowledged, default=0)) > seen.version:
            yield f"as the newest, though version {newest} had been acknowledged"


def _check_missed(missed: Missed, ledger: Ledger) -> Iterator[str]:
    """A version that is refused as expired was expired."""
    newest = ledger.known_at(missed.ended_ns)
    if ledger.commits[newest].landed.keeps(missed.version):
        yield f"though version {newest} keeps it: {missed.error}"
