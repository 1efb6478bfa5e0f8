"""The words of a pipeline: Spark's comments, strings and names."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from gapless.pipelines.language.text import Span, SqlText

Kind = Literal["word", "name", "string", "number", "sign", "end"]

# sqlglot reads queries, and not these: its tokenizer takes what follows SHOW, EXPLAIN or CALL as one string.
_TOKEN = re.compile(
    r"""
    (?P<blank>\s+|--[^\n]*|/\*.*?\*/)
    |(?P<string>[rR]?'(?:[^'\\]|\\.|'')*'|[rR]?"(?:[^"\\]|\\.|"")*")
    |(?P<name>`(?:[^`]|``)*`)
    |(?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?(?!\w))
    |(?P<word>\w+)
    |(?P<open>/\*|['"`])
    |(?P<sign>.)
    """,
    re.DOTALL | re.VERBOSE,
)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "0": "\0", "Z": "\x1a", "%": "\\%", "_": "\\_"}


@dataclass(frozen=True, slots=True)
class Token:
    """A word, a quoted name, a string, a number or a sign, and its place in the text."""

    kind: Kind
    text: str
    """Of names and strings what they say; of others what is written."""
    span: Span

    def is_word(self, *words: str) -> bool:
        """Whether it is one of these keywords, in whatever case."""
        return self.kind == "word" and self.text.upper() in words

    def is_sign(self, sign: str) -> bool:
        """Whether it is this sign."""
        return self.kind == "sign" and self.text == sign

    @property
    def told(self) -> str:
        """How a message calls it."""
        return "the end of the text" if self.kind == "end" else repr(self.text)


def tokenize(sql: SqlText) -> list[Token]:
    """The tokens of a text, one of kind "end" behind the last. Raises InvalidPipeline for a string, a name or a comment without an end."""
    tokens = []
    for match in _TOKEN.finditer(sql.text):
        kind, span = str(match.lastgroup), Span(match.start(), match.end())
        match kind:
            case "blank":
                continue
            case "open":
                raise _unclosed(sql, span)
            case "string":
                tokens.append(Token("string", _string(match[0]), span))
            case "name":
                tokens.append(Token("name", match[0][1:-1].replace("``", "`"), span))
            case "word" | "number" | "sign":
                tokens.append(Token(kind, match[0], span))
    end = len(sql.text.rstrip())
    return [*tokens, Token("end", "", Span(end, end))]


def _string(written: str) -> str:
    """What a string says, by Spark's rules (`unescapeSQLString`): a quote is doubled or escaped; after r nothing is."""
    if written[0] in "rR":
        return written[2:-1]
    quote = written[0]

    def said(match: re.Match[str]) -> str:
        code = match["code"] or match["long"]
        if code:
            return chr(int(code, 16)) if int(code, 16) < 0x110000 else match[0]
        return quote if match[0] == quote * 2 else _ESCAPES.get(match["one"], match["one"])

    pattern = rf"\\u(?P<code>[0-9a-fA-F]{{4}})|\\U(?P<long>[0-9a-fA-F]{{8}})|\\(?P<one>.)|{quote}{quote}"
    return re.sub(pattern, said, written[1:-1], flags=re.DOTALL)


def _unclosed(sql: SqlText, span: Span) -> Exception:
    sign = sql.slice(span)
    what = {"/*": "comment", "`": "name"}.get(sign, "string")
    closing = "*/" if sign == "/*" else sign
    return sql.error(
        span,
        f"the {what} that begins here has no end",
        why=f"A {what} that {sign} opens is closed by {closing}",
        fix=f"Put {closing} where it ends",
    )
