"""Sinks of pipelines that are no tables of gapless: databases and topics."""
