"""Public names of packages that bring their modules in when they are first used (PEP 562)."""

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def names_of(package: str, names: Mapping[str, tuple[str, ...]], space: dict[str, object]) -> Callable[[str], object]:
    """The `__getattr__` of a package whose globals are `space`, by the names that each module has for it."""
    homes = {name: module for module, these in names.items() for name in these}

    def found(name: str) -> object:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        thing = space[name] = getattr(import_module(homes[name]), name)
        return thing

    return found


def above(module: str, name: str) -> Any:
    """A function of a folder above the caller's, brought in when a method is called that is spelled below for those who look for it there."""
    return getattr(import_module(module), name)
