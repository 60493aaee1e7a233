"""Feeds on Spark Structured Streaming."""
