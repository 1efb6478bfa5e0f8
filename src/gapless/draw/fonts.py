"""Fonts of this machine for a text: matplotlib's own, and others for the characters that it lacks."""

from __future__ import annotations

from collections.abc import Iterable

_OWN = "DejaVu Sans"
_OTHERS = ("Noto Sans", "Arial Unicode", "Segoe UI", "PingFang", "Hiragino Sans", "Microsoft YaHei", "Yu Gothic", "Malgun Gothic",
           "WenQuanYi", "Source Han Sans", "Droid Sans", "Unifont")  # fmt: skip


class Fonts:
    """The families that show some texts, and the texts as they can be shown."""

    __slots__ = ("_known", "families")

    families: list[str]
    """In the order to try them."""

    def __init__(self, texts: Iterable[str]) -> None:
        """Find fonts for all characters of these texts."""
        missing = {character for text in texts for character in text} - _characters(_OWN)
        self.families, lacking = [_OWN], set(missing)
        for family in _installed() if lacking else ():
            if found := lacking & _characters(family):
                self.families.append(family)
                lacking -= found
        self._known = {ord(character): _escape(character) for character in lacking}

    def shown(self, text: str) -> str:
        """The text, with what no font here can show written as escapes."""
        return text.translate(self._known)


def _escape(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii") if character.isprintable() else character


def _installed() -> list[str]:
    from matplotlib.font_manager import fontManager

    names = {entry.name for entry in fontManager.ttflist}
    return sorted(name for name in names if name.startswith(_OTHERS))


def _characters(family: str) -> set[str]:
    from matplotlib.font_manager import findfont, get_font

    return {chr(code) for code in get_font(findfont(family)).get_charmap()}
