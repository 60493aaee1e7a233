"""Request bodies of maps (JSON, NDJSON, Arrow) to columns."""
