"""The options of the object store that a table lies in, whatever its format."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gapless.pipelines.options.spec import OptionSpec, behind
from gapless.spark.setup.options import STORAGE_PREFIX

AWS_REGION = OptionSpec(name="aws_region", about="The region of the bucket; the same as storage.aws_region")


def storage_options(options: Mapping[str, Any]) -> dict[str, str]:
    """What `storage_options=` takes; empty where nothing is said, and the environment says it."""
    found = {name: str(value) for name, value in behind(STORAGE_PREFIX, options).items()}
    region = options.get(AWS_REGION.name)
    return found if region is None else {"aws_region": region, **found}
