"""A simulated network of brokers: an internet-like topology, zones of subscription space, and messages on their way."""
