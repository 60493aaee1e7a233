"""Kernels that divide as IEEE 754 does: by zero to an infinity or NaN, instead of raising, which would prevent SIMD."""

from __future__ import annotations

from indexes.compiled.jit import compiler

float_kernel = compiler(_nrt=False, error_model="numpy")
"""As `indexes.compiled.jit.kernel`."""

float_internal = compiler(_nrt=False, error_model="numpy", no_cpython_wrapper=True)
"""As `indexes.compiled.jit.internal`."""

float_inlined = compiler(_nrt=False, error_model="numpy", no_cpython_wrapper=True, forceinline=True)
"""As `indexes.compiled.jit.inlined`."""

float_inlined_kernel = compiler(_nrt=False, error_model="numpy", forceinline=True)
"""As `float_inlined`, for functions that Python calls as well: what scores one object or node of a loop over them."""

EPSILON = 2.0**-52
"""The distance from 1 to the next float64: an operation is off by half of it, relatively."""
