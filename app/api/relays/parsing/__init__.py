"""Request bodies of relays (JSON, NDJSON, Arrow) to columns."""
