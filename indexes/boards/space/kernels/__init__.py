"""The compiled kernels of boards with several range attributes."""
