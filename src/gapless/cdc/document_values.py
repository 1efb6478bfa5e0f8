"""Documents of a collection as JSON's values: MongoDB's relaxed extended JSON. Pure."""

from __future__ import annotations

import json

import pyarrow as pa

from gapless.cdc.json_values import Json
from gapless.documents.collections.storage import DOCUMENT_COLUMN
from gapless.documents.values.codec import ID, decode_document


def tell_documents(rows: pa.Table, where: str) -> list[tuple[Json, dict[str, Json]]]:
    """The id and the document of each row. Raises CorruptTable, which names `where` a document lies that cannot be read."""
    from bson import json_util

    found = []
    for data in rows.column(DOCUMENT_COLUMN).to_pylist():
        text = json_util.dumps(decode_document(data, where), json_options=json_util.RELAXED_JSON_OPTIONS)
        image: dict[str, Json] = json.loads(text)
        found.append((image.get(ID), image))
    return found
