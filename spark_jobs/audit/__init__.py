"""Jobs that recompute the service's lists from a snapshot, without its indexes."""
