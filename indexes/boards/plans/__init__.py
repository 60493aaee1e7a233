"""Accepted commands of a board in execution, one module for each group of commands."""
