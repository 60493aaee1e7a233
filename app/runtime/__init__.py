"""The process around the application: logs, metrics, signals, sockets, compiled kernels."""
