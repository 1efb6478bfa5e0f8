"""How a description of files as Iceberg differs from what it should say."""

from __future__ import annotations

from collections.abc import Mapping

from pyiceberg.manifest import DataFile


def different_files(wanted: Mapping[str, DataFile], found: Mapping[str, DataFile]) -> list[str]:
    """How the files that are described differ from those that should be, by their locations."""
    told = [f"it has {path}, which the table does not" for path in sorted(found.keys() - wanted.keys())]
    told += [f"it lacks {path}" for path in sorted(wanted.keys() - found.keys())]
    for path in sorted(found.keys() & wanted.keys()):
        mine, theirs = wanted[path], found[path]
        if (mine.record_count, mine.file_size_in_bytes) != (theirs.record_count, theirs.file_size_in_bytes):
            told.append(f"it says another number of rows or bytes of {path}")
        elif (mine.spec_id, mine.partition) != (theirs.spec_id, theirs.partition):
            told.append(f"it says that {path} lies in another partition")
        elif _differ(mine, theirs):
            told.append(f"it says other bounds or counts of {path}")
    return told


def _differ(mine: DataFile, theirs: DataFile) -> bool:
    """Whether theirs says other counts or bounds of a file's columns than mine; what was said before a type was promoted is as good."""
    for said in ("null_value_counts", "nan_value_counts", "lower_bounds", "upper_bounds"):
        found = getattr(theirs, said) or {}
        for key, known in getattr(mine, said).items():
            value = found.get(key, known)
            if value != known and (isinstance(value, int) or len(value) == len(known)):
                return True
    return False
