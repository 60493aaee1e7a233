"""Accepted commands of a matcher in execution, one module for each group of commands."""
