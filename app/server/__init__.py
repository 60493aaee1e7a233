"""The HTTP server around the application: one process, one event loop, and a bound to what a connection can hold."""

from app.server.serving import Server, raise_file_limit, serve

__all__ = ["Server", "raise_file_limit", "serve"]
