"""Relays: the covering indexes beside the prototype's, and notifications beside a scan."""
