"""The compiled kernels of maps."""
