"""Request bodies of feeds (JSON, NDJSON, Arrow) to columns."""
