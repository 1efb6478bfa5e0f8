"""Goes through the tokens of a pipeline, and refuses what is not expected there."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from gapless.errors import InvalidPipeline, nearest
from gapless.pipelines.language.text import Span, SqlText
from gapless.pipelines.language.tokens import Token, tokenize

T = TypeVar("T")


class TokenCursor:
    """Where a parser is in the tokens of a text. All that expects something raises InvalidPipeline where something else stands."""

    def __init__(self, sql: SqlText) -> None:
        self.sql = sql
        self._tokens = tokenize(sql)
        self._at = 0

    @property
    def next(self) -> Token:
        """The token that comes next; of kind "end" behind the last."""
        return self._tokens[self._at]

    @property
    def at_end(self) -> bool:
        """Whether all tokens are taken."""
        return self.next.kind == "end"

    def advance(self) -> Token:
        """Take the next token."""
        token = self.next
        self._at += not self.at_end
        return token

    def since(self, start: int) -> Span:
        """From a character to the end of the token that was taken last."""
        return Span(start, max(start, self._tokens[self._at - 1].span.end if self._at else start))

    def accept(self, *words: str) -> bool:
        """Take these keywords, where they come next, one after the other."""
        following = self._tokens[self._at : self._at + len(words)]
        if len(following) == len(words) and all(token.is_word(word) for token, word in zip(following, words, strict=True)):
            self._at += len(words)
            return True
        return False

    def accept_sign(self, sign: str) -> bool:
        """Take this sign, where it comes next."""
        if self.next.is_sign(sign):
            self._at += 1
            return True
        return False

    def expect(self, *words: str) -> None:
        """Take these keywords, one after the other."""
        for word in words:
            if not self.accept(word):
                raise self.unexpected(word)

    def expect_sign(self, sign: str, after: str = "") -> None:
        """Take this sign; `after` is what the message says that it follows."""
        if not self.accept_sign(sign):
            raise self.unexpected(f"{sign!r}" + (f" after {after}" if after else ""))

    def expect_name(self, what: str) -> tuple[str, Span]:
        """Take a name, in backticks or not; `what` is whose."""
        token = self.next
        if token.kind not in ("word", "name") or not token.text or token.text[0].isdigit():
            raise self.unexpected(f"the name of {what}")
        self._at += 1
        return token.text, token.span

    def expect_string(self, what: str) -> str:
        """Take a string."""
        if self.next.kind != "string":
            raise self.unexpected(f"{what} in quotes")
        return self.advance().text

    def listed(self, item: Callable[[], T]) -> list[T]:
        """What stands in parentheses, comma by comma, and is not nothing."""
        self.expect_sign("(")
        found = [item()]
        while not self.accept_sign(")"):
            if not self.accept_sign(","):
                raise self.unexpected("',' or ')'")
            found.append(item())
        return found

    def skip_to(self, *signs: str, words: tuple[str, ...] = (), brackets: str = "()") -> Span:
        """Pass over tokens up to one of these signs or keywords outside of brackets, or the end; what was passed."""
        start, depth = self.next.span.start, 0
        while not self.at_end:
            token = self.next
            if not depth and (token.is_word(*words) or (token.kind == "sign" and token.text in signs)):
                break
            if token.kind == "sign" and token.text in brackets:
                depth = max(0, depth + (1 if brackets.index(token.text) % 2 == 0 else -1))
            self._at += 1
        return self.since(start)

    def within(self, span: Span) -> list[Token]:
        """The tokens of a span, and the end."""
        return [one for one in self._tokens if span.start <= one.span.start < span.end] + self._tokens[-1:]

    def unexpected(self, wanted: str, known: tuple[str, ...] = ()) -> InvalidPipeline:
        """The error for the next token, where something else must come; `known` are the words for one of which it may be meant."""
        token = self.next
        fix = nearest(token.text.upper(), known) if known and token.kind == "word" else ""
        return self.sql.error(token.span, f"{token.told} stands where {wanted} must", fix=fix)
