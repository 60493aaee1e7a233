"""Request bodies of matchers (JSON, NDJSON, Arrow) to columns."""
