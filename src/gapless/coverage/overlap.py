"""Whether new data steps on buckets that are already covered."""

from __future__ import annotations

from dataclasses import dataclass

from gapless.coverage.bitmap import CoverageMap, bias
from gapless.model.index import Identity


@dataclass(frozen=True, slots=True, kw_only=True)
class Overlap:
    """Buckets that both new and present data cover."""

    identity: Identity
    """The first identity, in canonical order, that overlaps."""
    first: int
    """Its first overlapping bucket id."""
    last: int
    """Its last overlapping bucket id (inclusive)."""
    buckets: int
    """Overlapping buckets, summed over all identities."""
    identities: int
    """How many identities overlap."""


def overlap(new: CoverageMap, present: CoverageMap, *, signed: bool = True) -> Overlap | None:
    """What of `new` is already in `present`, in bucket ids (`signed=False` for a uint64 index); None where they are disjoint."""
    common = new.intersection(present)
    for identity, bitmap in common.items():
        shift = bias(signed=signed)
        return Overlap(
            identity=identity,
            first=bitmap.min() - shift,
            last=bitmap.max() - shift,
            buckets=common.cardinality(),
            identities=len(common),
        )
    return None
