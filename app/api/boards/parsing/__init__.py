"""Request bodies of boards (JSON, NDJSON, Arrow) to columns."""
