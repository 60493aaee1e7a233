"""From an accepted command to a durable, applied one: the writer, its queues, recovery and maintenance."""
