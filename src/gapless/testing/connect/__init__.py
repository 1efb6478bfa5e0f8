"""The contracts of sinks and sources, as test classes: subclass one and get the whole suite."""

import pytest

pytest.register_assert_rewrite("gapless.testing.connect.sink_contract", "gapless.testing.connect.source_contract")

from gapless.testing.connect.sink_contract import SinkContract  # noqa: E402  # a failed check shows its values
from gapless.testing.connect.source_contract import SourceContract  # noqa: E402

__all__ = ["SinkContract", "SourceContract"]
