"""Helpers for those who change Rankcast. Nothing here runs in the service."""
