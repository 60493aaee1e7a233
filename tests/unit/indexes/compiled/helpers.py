"""What the tests of compiled code share."""

from __future__ import annotations

LARGE = "\n        ".join(f"total += (x * {i} + total) % (y + {i})" for i in range(1, 40))
"""So many instructions that callers refer to them and hold no copy."""
