"""Ranked matching: the k best-scored subscriptions that an event meets.

Where the algorithms of [Ranked matching] are (`docs/papers.md`):

| the paper's | is in |
| --- | --- |
| SOPT-R-tree, scored R-tree | `kernels/run_index.py`, `kernels/runs.py` |
| Algorithms 1 and 2, the arrangement of a SOPT-R-tree | `kernels/arrangement.py` |
| IR-tree, scored interval tree | `alternatives/lists.py` |
| scored segment tree | `alternatives/segments.py` |
| getnext(), Threshold Algorithm, intersection | `kernels/sorted_access.py`, `kernels/strategies.py` |
| (not in the paper) the best intervals by cell, in front of a SOPT-R-tree | `kernels/cells.py` |
| "scored multi-dimensional indices" (section 6), the default | `kernels/blocks.py` |
"""
