"""Jobs that pack the indexes of a resource from a snapshot, one module a resource."""
