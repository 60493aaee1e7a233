"""Accepted commands of a relay in execution, one module for each group of commands."""
