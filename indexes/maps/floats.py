"""Kernels that divide as IEEE 754 does: by zero to an infinity or NaN, in place of an error that keeps lanes apart."""

from __future__ import annotations

from indexes.jit import compiler

float_kernel = compiler(_nrt=False, error_model="numpy")
"""As `indexes.lean.lean_kernel`."""

float_part = compiler(_nrt=False, error_model="numpy", no_cpython_wrapper=True)
"""As `indexes.lean.inner_kernel`."""

float_pasted = compiler(_nrt=False, error_model="numpy", no_cpython_wrapper=True, forceinline=True)
"""As `indexes.lean.pasted_kernel`."""

EPSILON = 2.0**-52
"""The distance from 1 to the next float64: an operation is off by half of it, relatively."""
