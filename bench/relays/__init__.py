"""Relays: the experiments of [Covering], the covering indexes compared with the prototype's, the service, and peers."""
