"""Measurements of replicas."""
