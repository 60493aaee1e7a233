"""Accepted commands of a map in execution, one module for each group of commands."""
