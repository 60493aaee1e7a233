"""The routes, one module a resource, and what they share: how bodies, values and pages are read."""
