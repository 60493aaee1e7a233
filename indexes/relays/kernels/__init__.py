"""The compiled kernels of relays."""
