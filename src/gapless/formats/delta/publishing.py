"""The properties of a Delta table that say how it is published in other formats: those of gapless, and Delta's own (UniForm)."""

from __future__ import annotations

from collections.abc import Mapping

from gapless.errors import InvalidOption, NotSupported, UnsupportedTable, nearest
from gapless.model.publishing import PublishedFormat, PublishSettings, parse_catalog, parse_publish

FORMATS: tuple[PublishedFormat, ...] = ("iceberg", "hudi")
"""Those in which a Delta table can be published."""
UNIVERSAL_FORMATS = "delta.universalFormat.enabledFormats"
"""The formats that Delta's UniForm describes a table in. Set by gapless it means `publish`, and is stored as that: other writers do not follow
where gapless describes the table."""
HUDI_FOLDER = "_hudi"
"""Where the files lie once more under names that Hudi reads; writers of Delta leave alone what begins so."""
PUBLISH = "gapless.publish"
_ON_COMMIT, _CATALOG, _TABLE = "gapless.publishOnCommit", "gapless.icebergCatalog", "gapless.icebergTable"
_OWN = "gapless."
_NAMES = {
    "publish": PUBLISH,
    "publish_on_commit": _ON_COMMIT,
    "iceberg_catalog": _CATALOG,
    "iceberg_table": _TABLE,
}
"""What the log calls the properties that time-series tables have under these names."""
OWN_PROPERTIES = tuple(_NAMES.values())
"""All of gapless that say so."""
_ALL = (*OWN_PROPERTIES, UNIVERSAL_FORMATS)


def is_published_name(name: str) -> bool:
    """Whether a property is one of these, or seems to be."""
    return name in _NAMES or name.lower().startswith(_OWN) or name.lower() == UNIVERSAL_FORMATS.lower()


def check_published_name(name: str) -> str:
    """The name as the log spells it; raises InvalidOption for one that begins as these and is none."""
    known = {one.lower(): one for one in _ALL}
    found = _NAMES.get(name) or known.get(name.lower())
    if found is None:
        raise InvalidOption(f"property {name!r} is not known", fix=nearest(name, _ALL), option=name, value=None)
    return found


def parse_published(name: str, value: object) -> tuple[str, str]:
    """The name and the text that the log has; raises InvalidOption, and NotSupported for what UniForm would promise and gapless not keep.

    >>> parse_published("publish", ["hudi", "iceberg"])
    ('gapless.publish', 'iceberg,hudi')
    """
    known = check_published_name(name)
    if known in (PUBLISH, UNIVERSAL_FORMATS):
        formats = parse_publish(_listed(value), FORMATS)
        if known == UNIVERSAL_FORMATS and "iceberg" in formats:
            raise NotSupported(
                f"property {UNIVERSAL_FORMATS!r} cannot be set to name 'iceberg'",
                why="It promises IcebergCompatV2: ids of lists' and maps' values and partition columns in the files, which gapless does not write",
                fix=f"Set {PUBLISH!r} (publish=['iceberg']) instead, which describes the files as they are",
                feature=UNIVERSAL_FORMATS,
            )
        return PUBLISH, ",".join(formats)
    if known == _ON_COMMIT:
        text = str(value).lower()
        if text not in ("true", "false"):
            raise InvalidOption(
                f"{name}={value!r} is neither True nor False", fix=f"Pass {name}=True", option=name, value=value
            )
        return known, text
    if not isinstance(value, str):
        raise InvalidOption(f"{name}={value!r} is no text", fix="Pass a str", option=name, value=value)
    return known, value


def publish_settings(configuration: Mapping[str, str]) -> PublishSettings:
    """How a table of these properties is to be published; raises UnsupportedTable where another writer gave them a value that has no meaning."""
    try:
        formats = parse_publish(_listed(configuration.get(PUBLISH, "")), FORMATS)
        catalog = parse_catalog(configuration.get(_CATALOG, ""), configuration.get(_TABLE, ""))
    except InvalidOption as error:
        raise UnsupportedTable(
            f"how the table is to be published cannot be told: {error.what}",
            why="Another writer set the property",
            fix="Set it right: table.alter.set_properties({'publish': ['iceberg']})",
            needs=PUBLISH,
        ) from error
    on_commit = configuration.get(_ON_COMMIT, "true").lower() != "false"
    return PublishSettings(
        formats=formats,
        on_commit=on_commit,
        hudi_folder=HUDI_FOLDER,
        iceberg_catalog=catalog["iceberg_catalog"],
        iceberg_table=catalog["iceberg_table"],
    )


def check_together(configuration: Mapping[str, str]) -> None:
    """Raise InvalidOption where the catalog of Iceberg and the table in it do not go together."""
    parse_catalog(configuration.get(_CATALOG, ""), configuration.get(_TABLE, ""))


def _listed(value: object) -> list[object]:
    """Names between commas as a list."""
    if isinstance(value, str):
        return [one for one in (part.strip() for part in value.split(",")) if one]
    return list(value) if isinstance(value, list | tuple) else [value]
