"""The resource types: for each, what the writer, recovery and maintenance need to know of it."""
