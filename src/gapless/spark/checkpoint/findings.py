"""What lies in a Spark checkpoint folder and what of it can be read, and the words for it: pure.

What a look at the checkpoint folder of a Spark query found, as values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Literal, TypeVar

from gapless.errors import UnreadableInput
from gapless.spark.checkpoint.files import Damaged, LogFolder, check_commit, fits, source_offsets
from gapless.tables.shared.findings import Severity, count

CheckpointCode = Literal[
    "nothing-there",
    "metadata-missing",
    "metadata-damaged",
    "offset-missing",
    "offset-damaged",
    "commit-missing",
    "commit-damaged",
    "commit-without-offset",
    "source-missing",
    "source-damaged",
    "newer-spark",
    "table-ahead",
    "table-behind",
    "checksum-left",
    "checksum-differs",
    "unfinished",
    "stranger",
]
"""What kind of thing was found; a code never changes its meaning."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointFinding:
    """One thing that is not as Spark leaves it."""

    code: CheckpointCode
    path: str
    """The file it is about, relative to the checkpoint folder; "" for the folder as a whole."""
    what: str
    """One sentence for people."""
    repair: str = ""
    """What to do, so that no row is lost or doubled; "" where nothing is to be done. It never is to start from the beginning."""
    severity: Severity = "problem"


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointReport:
    """What `check_checkpoint` found."""

    url: str
    query: str | None
    """Spark's id of the query; None where it cannot be told."""
    newest_offset: int | None
    """The newest batch of which Spark has planned the extent; None where there is none. Batches count from 0."""
    newest_commit: int | None
    """The newest batch that Spark holds for finished."""
    table_batch: int | None
    """The newest batch of this query that the table has; None where no table was given or it has none."""
    findings: tuple[CheckpointFinding, ...]
    """Problems and notes: metadata, offsets, commits, sources, the table, leftovers."""

    @property
    def ok(self) -> bool:
        """Whether a query can be started here, as far as was looked; notes do not count."""
        return not self.problems

    @property
    def problems(self) -> tuple[CheckpointFinding, ...]:
        """What keeps Spark from going on, or would have it lose or double rows."""
        return tuple(finding for finding in self.findings if finding.severity == "problem")

    @property
    def notes(self) -> tuple[CheckpointFinding, ...]:
        """What is merely worth knowing."""
        return tuple(finding for finding in self.findings if finding.severity == "note")

    def require_ok(self) -> None:
        """Raise UnreadableInput for the first problem, with its repair, if there is one."""
        for problem in self.problems:
            raise UnreadableInput(
                f"checkpoint {self.url}: {problem.what}",
                why=f"`check_checkpoint` found {count(len(self.problems), 'problem')}; this is the first",
                fix=problem.repair,
                source=f"{self.url}/{problem.path}",
            )


Found = TypeVar("Found")
ASK = "With table= given, the table is asked"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sink:
    """What the table has of the query's batches."""

    app: str
    """What the batches are known by."""
    named: bool
    """Whether the user named it; else it is the query's id."""
    newest: int | None
    """The newest batch that the table has; None where it has none."""

    def __str__(self) -> str:
        """What it has, in words."""
        return f"no batch of {self.app!r}" if self.newest is None else f"batch {self.newest} of {self.app!r}"


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointFacts:
    """What lies in the folder."""

    metadata: bytes | None
    checksums: Mapping[str, bytes]
    """Of files in the folder itself, by their paths."""
    offsets: LogFolder
    commits: LogFolder
    sources: Mapping[int, LogFolder]
    """Each source's own log, by the source's number."""
    sink: Sink | None = None
    """None where no table was given, or the query's id cannot be told."""


class Progress:
    """How far the two logs say that the query is. Batches count from 0, and -1 stands for none."""

    def __init__(self, facts: CheckpointFacts) -> None:
        """Read what Spark would read; raises `FromNewerSpark`."""
        self.facts = facts
        self.offsets, self.torn_offsets = read_log(facts.offsets, source_offsets)
        self._tear_short_offsets()
        _, self.torn_commits = read_log(facts.commits, check_commit)
        self.planned: int = _or_none(facts.offsets.newest)
        """The newest batch in `offsets/`."""
        self.finished: int = _or_none(facts.commits.newest)
        """The newest batch in `commits/`."""
        self.in_sink: int = _or_none(facts.sink.newest) if facts.sink else -1
        """The newest batch that the table has, as far as it can be told."""
        self.done: int = max(self.finished, self.in_sink)
        """The newest batch that Spark or, where it can be told, the sink holds for finished."""
        self.anchor: int = max((number for number in self.offsets if self._can_go_on(number)), default=-1)
        """The newest batch from which Spark could go on if there were none after it."""

    def _tear_short_offsets(self) -> None:
        """A file that tells of fewer sources than the one before has lost its end: the sources of a query stay the same."""
        short = [one for one, lines in self.offsets.items() if len(lines) < len(self.offsets.get(one - 1, ()))]
        for one in short:
            found, before = len(self.offsets[one]), len(self.offsets[one - 1])
            self.torn_offsets[one] = f"it says how far {found} of {before} sources go"
        self.offsets = {one: lines for one, lines in self.offsets.items() if one not in short}

    def _can_go_on(self, number: int) -> bool:
        """Whether a batch's end is known, and its start too if it may have to run again."""
        return number == 0 or number - 1 in self.offsets or number <= self.finished


def read_log(log: LogFolder, read: Callable[[bytes], Found]) -> tuple[dict[int, Found], dict[int, str]]:
    """What the files hold that can be read, and what is wrong with the others; raises `FromNewerSpark`."""
    sound: dict[int, Found] = {}
    torn: dict[int, str] = {}
    for number, data in sorted(log.contents.items()):
        try:
            sound[number] = read(data)
        except Damaged as damage:
            torn[number] = str(damage)
    return sound, torn


def altered(log: LogFolder) -> set[int]:
    """The files that are not as Spark wrote them, by the checksums that lie beside them on a local disk."""
    paths = {number: log.files[number] for number in log.contents}
    return {
        number
        for number, path in paths.items()
        if path in log.checksums and not fits(log.contents[number], log.checksums[path])
    }


def _or_none(number: int | None) -> int:
    return -1 if number is None else number


# -- words -------------------------------------------------------------------------------------------------------------


def hidden(path: str) -> str:
    """The checksum file that Hadoop puts beside a file.

    >>> hidden("offsets/9")
    'offsets/.9.crc'
    """
    folder, slash, name = path.rpartition("/")
    return f"{folder}{slash}.{name}.crc"


def files(log: LogFolder, numbers: Iterable[int]) -> str:
    """Files by name, each with its checksum if it has one: without that Spark could not write the file again."""
    paths = [log.files[number] for number in sorted(numbers)]
    return " and ".join(part for path in paths for part in (path, *([hidden(path)] if path in log.checksums else [])))


def span(log: LogFolder, first: int, last: int) -> str:
    """The files of the numbers from `first` to `last`, both included, there or not."""
    return f"{log.path}/{first}" if first == last else f"{log.path}/{first} to {log.path}/{last}"


def after(log: LogFolder, number: int) -> list[int]:
    """The numbers of a log's files past `number`."""
    return [one for one in sorted(log.files) if one > number]


def sentence(text: str) -> str:
    """With a capital letter."""
    return text[:1].upper() + text[1:]


def problem(code: CheckpointCode, path: str, what: str, repair: str) -> CheckpointFinding:
    """A finding that must be mended."""
    return CheckpointFinding(code=code, path=path, what=what, repair=repair)


def note(code: CheckpointCode, path: str, what: str) -> CheckpointFinding:
    """A finding that does no harm."""
    return CheckpointFinding(code=code, path=path, what=what, severity="note")
