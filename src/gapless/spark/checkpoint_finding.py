"""What a look at the checkpoint folder of a Spark query found, as values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from gapless.errors import UnreadableInput
from gapless.maintain.finding import Severity, count

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
