"""`gapless.toml`: what is said once for all pipelines of a folder."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gapless.errors import InvalidOption, nearest

FILE = "gapless.toml"


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """The settings of the table `[pipelines]`."""

    checkpoints: str | None = None
    """The folder or URL for checkpoints; a path is one from the folder of the file on."""
    master: str = "local[*]"
    """Where Spark runs, as in `gapless.spark.session`."""
    remote: str | None = None
    """A server of Spark Connect, in place of a master."""
    spark: Mapping[str, Any] = field(default_factory=dict)
    """Spark's own options."""


def read_config(folder: Path) -> Config:
    """The settings in the folder's `gapless.toml`, those of nothing where it has none. Raises InvalidOption for a key that is not known."""
    path = folder / FILE
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return Config()
    return parse_config(text, path)


def parse_config(text: str, path: Path) -> Config:
    """The settings in a text; `path` is its file's. Raises InvalidOption."""
    try:
        told = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise _refuse(path, "it is no TOML", str(error), "Mend it", None) from error
    for name in told:
        if name != "pipelines":
            raise _refuse(
                path, f"it has {name!r}", "Settings of pipelines stand in [pipelines]", nearest(name, ("pipelines",)), name
            )
    found = told.get("pipelines", {})
    types = {"checkpoints": str, "master": str, "remote": str, "spark": dict}
    if not isinstance(found, dict):
        raise _refuse(path, "pipelines is no table", "It has keys", "Write [pipelines]", "pipelines")
    for name, value in found.items():
        if name not in types:
            raise _refuse(path, f"[pipelines] has {name!r}", "", nearest(name, types), name)
        if not isinstance(value, types[name]):
            what = "a table" if types[name] is dict else "a text"
            raise _refuse(path, f"{name} = {value!r} in [pipelines]", f"It is {what}", f"Write {name} as {what}", name)
    if "checkpoints" in found and "://" not in found["checkpoints"]:
        found["checkpoints"] = str(path.parent / found["checkpoints"])
    return Config(**found)


def _refuse(path: Path, what: str, why: str, fix: str, option: str | None) -> InvalidOption:
    return InvalidOption(f"{path} cannot be used: {what}", why=why, fix=fix, option=option or FILE, value=str(path))
