"""Kernels that several resources share."""
