"""Accepted commands of a feed in execution, one module for each group of commands."""
