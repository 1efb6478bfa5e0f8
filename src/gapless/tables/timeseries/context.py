"""The committer of time-series tables, by its full type."""

from __future__ import annotations

from gapless.formats.timeseries.actions import Commit, TableState
from gapless.runtime.committer import Committer, Proposal

SeriesCommitter = Committer[Commit, TableState]
"""Commits to one time-series table."""
SeriesProposal = Proposal[Commit]
"""A change of one version of a time-series table."""
