"""Relays: the paper's experiments, the covering indexes beside the prototype's, the service, and peers."""
