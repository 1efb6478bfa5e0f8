"""Values of options as people write them: sizes, lengths of time, names, secrets."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from gapless.errors import InvalidOption, nearest, shorten

_BYTES: Mapping[str, int] = {
    "b": 1,
    **{f"{letter}b": 1000**power for power, letter in enumerate("kmgt", 1)},
    **{f"{letter}ib": 1024**power for power, letter in enumerate("kmgt", 1)},
}
_SIZES = "It is a whole number of bytes, or one with a unit: kB, MB, GB, TB count by 1000, KiB, MiB, GiB, TiB by 1024"


def parse_size(given: object, option: str) -> int:
    """A number of bytes from 1: a whole number, or a text such as "128 MB" (128,000,000) or "128MiB" (134,217,728). Raises InvalidOption.

    >>> parse_size("128MB", "target_file_size"), parse_size("128 MiB", "target_file_size"), parse_size("4096", "target_file_size")
    (128000000, 134217728, 4096)
    """
    match = re.fullmatch(r"\s*(\d{1,15})(\.\d{1,6})?\s*([A-Za-z]*)\s*", str(given)) if type(given) in (int, str) else None
    if match is None:
        raise _refuse(given, option, "size", _SIZES, f'Write it such as {option}="128 MiB"')
    unit = match[3].lower() or "b"
    if unit not in _BYTES:
        raise _refuse(given, option, "size", _SIZES, nearest(match[3], ("kB", "MB", "GB", "TB", "KiB", "MiB", "GiB", "TiB")))
    size = round(float(match[1] + match[2]) * _BYTES[unit]) if match[2] else int(match[1]) * _BYTES[unit]
    if not 0 < size < 2**60:
        raise _refuse(
            given, option, "size", "It is 1 byte or more, and less than 1 EiB", f'Write it such as {option}="128 MiB"'
        )
    return size


def parse_names(given: object, option: str) -> tuple[str, ...]:
    """Names of columns, comma by comma. Raises InvalidOption.

    >>> parse_names("site, sensor", "entity")
    ('site', 'sensor')
    """
    names = tuple(one.strip() for one in given.split(",")) if isinstance(given, str) else ()
    if not names or not all(names):
        raise _refuse(given, option, "list of names", "Names stand between commas", f"Write {option}='site, sensor'")
    return names


_SECRET = re.compile(r"\$\{(?P<kind>env|file):(?P<name>[^}]*)\}")


def fill_secrets(text: str, option: str, look_up: Callable[[str, str], str | None]) -> str:
    """A text with `${env:NAME}` and `${file:PATH}` replaced by what `look_up(kind, name)` gives. Raises InvalidOption where that is None, and
    for other texts in `${…}`. What was looked up is in no message.

    """

    def value(match: re.Match[str]) -> str:
        found = look_up(match["kind"], match["name"])
        if found is None:
            what = {"env": "the environment variable", "file": "the file"}[match["kind"]]
            raise InvalidOption(
                f"{option} needs {what} {match['name']!r}, which is not there",
                why=f"The pipeline says {match[0]}",
                fix="Set it where the pipeline runs" if match["kind"] == "env" else "Put it where the pipeline runs, readable",
                option=option,
                value=match[0],
            )
        return found

    rest = _SECRET.sub("", text)
    if other := re.search(r"\$\{[^}]*\}?", rest):
        raise InvalidOption(
            f"{option} says {other[0]!r}, which stands for nothing",
            why="Secrets are ${env:NAME} or ${file:PATH}",
            fix="Write one of them",
            option=option,
            value=other[0],
        )
    return _SECRET.sub(value, text)


def has_secret(value: object) -> bool:
    """Whether an option's value names a secret instead of saying it."""
    return isinstance(value, str) and _SECRET.search(value) is not None


def _refuse(given: object, option: str, what: str, why: str, fix: str) -> InvalidOption:
    return InvalidOption(f"{option}={shorten(given)} is no {what}", why=why, fix=fix, option=option, value=given)
