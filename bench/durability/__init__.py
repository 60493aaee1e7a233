"""How fast a service starts, what it keeps in memory, and what its users notice of snapshots and rebuilds."""
