"""What every test may ask for: how hard Hypothesis tries, and the things that lie outside this repository.

`HYPOTHESIS_PROFILE` chooses a profile: `default` (fresh examples), `ci` (the same examples each run; taken when CI=true) or
`long` (for `make soak`).
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

pytest_plugins = [
    "support.s3_server",
    "support.kafka",
    "support.kafka_broker",
    "support.postgres",
    "support.lake_catalogs",
    "support.hive",
    "support.http_service",
    "support.delta_engines",
    "support.interrupts",
]

IN_CI = os.environ.get("CI", "").lower() in {"1", "true"}
ROOT = Path(__file__).resolve().parent.parent

# Javas of tests live for seconds: what the second compiler costs is never earned back (half of a session's time on a processor).
for _name in ("SPARK_SUBMIT_OPTS", "SPARK_DAEMON_JAVA_OPTS"):
    os.environ.setdefault(_name, "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")

# A deadline measures the machine, which is shared, and not the code.
settings.register_profile("default", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True, print_blob=True)
settings.register_profile("long", deadline=None, max_examples=500, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE") or ("ci" if IN_CI else "default"))


def _require(condition: object, reason: str) -> None:
    if condition:
        return
    if IN_CI:
        pytest.fail(f"CI must not skip this: {reason}", pytrace=False)
    pytest.skip(reason)


@pytest.fixture(scope="session")
def require() -> Callable[[object, str], None]:
    """`require(condition, reason)`: go on if the condition holds; else skip, saying the reason, or fail where CI=true.

    For what lies outside the repository: `../shared`, a jar, a server, a program on the PATH.
    """
    return _require


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder `shared` beside the clone (cases, golden tables, reference facts); a test that asks skips without it."""
    path = ROOT.parent / "shared"
    _require(path.is_dir(), f"there is no {path}: this test reads the project's shared folder, which a plain clone lacks")
    return path
