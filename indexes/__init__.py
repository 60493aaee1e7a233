"""Pure data structures and algorithms: no I/O, no asyncio, no HTTP, no Spark."""
