"""The HTTP server around the application: one process, one event loop, and a bound to what a connection can hold."""
