"""Partitions of a feed for distributed execution."""
