"""Rebuilding a resource's index from a snapshot on Spark, one module a resource."""
