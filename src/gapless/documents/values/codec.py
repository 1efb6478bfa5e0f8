"""Documents as BSON: mappings of Python values into bytes, and back. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import bson
from bson.binary import UuidRepresentation
from bson.codec_options import CodecOptions, DatetimeConversion
from bson.errors import BSONError

from gapless.documents.values.order import no_value, sort_key
from gapless.errors import CorruptTable, InvalidValue

OPTIONS: CodecOptions[dict[str, Any]] = CodecOptions(
    uuid_representation=UuidRepresentation.STANDARD, datetime_conversion=DatetimeConversion.DATETIME_AUTO
)
"""UUIDs have subtype 4; dates come back naive, in UTC, and as `DatetimeMS` where Python's do not reach."""
LARGEST = 16 << 20
"""Bytes of the largest document, as MongoDB has it."""
ID = "_id"


def encode_document(document: object, row: int = 0) -> bytes:
    """A document as BSON, `_id` first; `row` is its number in its input, for messages. Raises InvalidValue.

    >>> decode_document(encode_document({"a": 1, "_id": 5}))
    {'_id': 5, 'a': 1}
    """
    if not isinstance(document, Mapping):
        raise no_value(document)
    given: Mapping[str, Any] = document
    if ID in given and next(iter(given)) != ID:
        given = {ID: given[ID], **{name: value for name, value in given.items() if name != ID}}
    try:
        data = bson.encode(given, codec_options=OPTIONS)
    except (BSONError, OverflowError, TypeError, ValueError, RecursionError) as error:
        # What is of no type of BSON is told as everywhere.
        sort_key(given)
        raise InvalidValue(
            f"document {row} cannot be stored",
            why=str(error),
            fix="Names are texts without a null character, integers have 64 bits, and there are 100 levels at most",
            column="",
            row=row,
            value=None,
        ) from error
    if len(data) > LARGEST:
        raise InvalidValue(
            f"document {row} has {len(data)} bytes",
            why=f"A document has {LARGEST} at most",
            fix="Keep large values in files of their own, and their paths in the document",
            column="",
            row=row,
            value=None,
        )
    return data


def decode_document(data: bytes, where: str = "") -> dict[str, Any]:
    """The document that BSON holds. Raises CorruptTable, which names `where` it lies, for bytes that are none."""
    try:
        return bson.decode(data, codec_options=OPTIONS)
    except BSONError as error:
        raise CorruptTable(
            f"a document in {where or 'a table'} cannot be read",
            why=str(error),
            fix="Restore the table to a version before it was written",
            path=where,
        ) from error
