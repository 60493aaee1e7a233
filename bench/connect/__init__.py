"""Events from brokers into a board: how many a second, beside a bare loop that posts the same requests."""
