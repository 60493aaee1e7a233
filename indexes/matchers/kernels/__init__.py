"""The compiled kernels of matchers."""
