"""The time-series log (docs/spec/timeseries.md): actions, codecs, replay, conflicts."""
