"""Benchmarks of boards: the counts of the paper's tables, the kernels' speed, the service over HTTP and its streams."""
