"""Tools for development. Nothing here runs in the service."""
