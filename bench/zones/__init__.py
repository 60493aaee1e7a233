"""Zones on a broker and gateways: what they cost, and what a cluster of them would carry."""
