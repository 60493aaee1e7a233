"""Relays: which subscriptions cover others and need not be forwarded, and which of them a notification meets."""
