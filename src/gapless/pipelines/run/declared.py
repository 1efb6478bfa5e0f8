"""The columns that a pipeline declares of a source, held against those that it has."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gapless.pipelines.definitions import Pipeline
from gapless.pipelines.language.statements import Column
from gapless.spark.reading.columns import ddl, quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def columns_ddl(columns: tuple[Column, ...]) -> str:
    """Declared columns as Spark writes a schema."""
    return ddl((one.name, one.type) for one in columns)


def declared_columns(pipeline: Pipeline, frame: DataFrame, columns: tuple[Column, ...], name: str) -> DataFrame:
    """The declared columns of a frame, all where none is. Raises InvalidPipeline for one that it lacks or has in another type."""
    if not columns:
        return frame
    from pyspark.sql import functions

    found = {one.name.casefold(): one.dataType.simpleString() for one in frame.schema.fields}
    asked = {
        one.name: one.dataType.simpleString()
        for one in frame.sparkSession.createDataFrame([], columns_ddl(columns)).schema.fields
    }
    for one in columns:
        has = found.get(one.name.casefold())
        if has != asked[one.name]:
            what = "is not there" if has is None else f"is {has} there"
            raise pipeline.sql.error(
                one.span,
                f"the column {one.name!r} of {name!r} {what}",
                why=f"There are {', '.join(f'{column} {type_}' for column, type_ in found.items())}",
                fix="Declare it as it is, and CAST it in a query, or leave the list of columns out",
            )
    return frame.select(*(functions.col(quoted(one.name)) for one in columns))


def not_null(frame: DataFrame, columns: tuple[Column, ...], source: str) -> DataFrame:
    """Stop where a column that is declared NOT NULL is null."""
    from pyspark.sql import functions

    for one in columns:
        if one.not_null:
            column = functions.col(quoted(one.name))
            text = functions.lit(f"column {one.name} of the source {source} is null, and declared NOT NULL")
            checked = functions.when(column.isNull(), functions.raise_error(text)).otherwise(column)
            frame = frame.withColumn(one.name, checked)
    return frame
