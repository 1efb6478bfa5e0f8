"""What of a change is not published."""

from __future__ import annotations

from collections.abc import Mapping

from gapless.cli.show.console import print_line
from gapless.draw.label import printable
from gapless.tables.shared.publication.publications import PUBLISHED


def tell_unpublished(published: Mapping[str, str]) -> None:
    """Say of a change, whose report has this, in which formats it is not published, and why."""
    for name, told in published.items():
        if told != PUBLISHED:
            print_line(printable(f"Not published as {name} yet: {told}"))
