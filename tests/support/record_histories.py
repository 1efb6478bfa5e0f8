"""Random histories of rows, as change records."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from gapless.cdc import ChangeSource, Record

SOURCE = ChangeSource(system="app", collection="things")
VALUES = st.fixed_dictionaries(
    {
        "v": st.none() | st.integers(-(2**63), 2**63 - 1),
        "s": st.none() | st.text(max_size=4),
        "part": st.sampled_from(["a", "b"]),
    }
)


@st.composite
def histories(draw: st.DrawFn, most: int = 12, *, moves: bool = True) -> list[Record]:
    """Records of rows with the key `id` that one could have seen: none updates to what was there, or deletes what is not.

    Without `moves` a row stays in its partition, `part`.
    """
    live: dict[int, dict[str, Any]] = {}
    found: list[Record] = []
    for number in range(draw(st.integers(1, most))):
        key = draw(st.integers(0, 4))
        before = live.get(key)
        after = {"id": key, **draw(VALUES)}
        if not moves:
            after["part"] = "ab"[key % 2]
        if before is not None and (after == before or draw(st.booleans())):
            after = {}
        op = draw(st.sampled_from("cr")) if before is None else "u" if after else "d"
        images: dict[str, Any] = {"_before": before, "_after": after or None}
        found.append(Record(_id=key, _seq=(1, number), _op=op, _ts=number, _source=SOURCE, **images))
        live.pop(key, None)
        live |= {key: after} if after else {}
    return found


def told(records: list[Record]) -> list[tuple[Any, ...]]:
    """What a change feed tells of records: which row, how it was and is, and whether it came, changed or went."""
    return [("c" if one._op == "r" else one._op, one._id, one._before, one._after) for one in records]
