"""The text of a pipeline, places in it, and errors that show the place."""

from __future__ import annotations

from dataclasses import dataclass, field

from gapless.errors import InvalidPipeline

_WIDTH = 120
"""How much of a long line is shown."""


@dataclass(frozen=True, slots=True)
class Span:
    """A piece of the text: the characters from `start` to before `end`, counted from 0."""

    start: int
    end: int

    def to(self, other: Span) -> Span:
        """From where this one begins to where the other one ends."""
        return Span(self.start, other.end)


@dataclass(frozen=True, slots=True)
class SqlText:
    """The text of a pipeline, and what messages call it."""

    text: str = field(repr=False)
    """It may hold secrets."""
    name: str = "pipeline"
    """Its file, as the user named it."""

    def slice(self, span: Span) -> str:
        """The characters of a span."""
        return self.text[span.start : span.end]

    def place(self, span: Span) -> tuple[int, int]:
        """Line and column of where a span begins, both counted from 1."""
        before = self.text[: span.start]
        return before.count("\n") + 1, span.start - (before.rfind("\n") + 1) + 1

    def error(self, span: Span, what: str, *, why: str = "", fix: str = "") -> InvalidPipeline:
        """The error for what stands at a span: with its line, its column, and a caret under it."""
        line, column = self.place(span)
        return InvalidPipeline(
            f"{self.name}:{line}:{column}: {what}",
            why=why,
            fix=fix,
            line=line,
            column=column,
            excerpt=self._excerpt(span, line, column),
        )

    def _excerpt(self, span: Span, line: int, column: int) -> str:
        whole = self.text.split("\n")[line - 1].rstrip("\r")
        skipped = max(0, column - 1 - _WIDTH // 2) if len(whole) > _WIDTH else 0
        shown = whole[skipped : skipped + _WIDTH]
        width = max(1, min(span.end - span.start, len(whole) - (column - 1), _WIDTH // 2))
        # Tabs are kept before the caret, so that it stands under its word however wide they are shown.
        indent = "".join("\t" if one == "\t" else " " for one in shown[: column - 1 - skipped])
        number = f"  {line} | "
        return f"{number}{shown}\n{' ' * (len(number) - 2)}| {indent}{'^' * width}"
