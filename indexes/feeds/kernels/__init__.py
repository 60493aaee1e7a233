"""The compiled kernels of feeds."""
