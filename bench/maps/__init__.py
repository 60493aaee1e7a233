"""Benchmarks of maps: the experiments of [Moving queries], comparisons with baselines, and the service over HTTP."""
