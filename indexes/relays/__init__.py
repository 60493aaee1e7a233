"""Covering: which subscriptions cover others and need not be forwarded, and which of them a notification meets.

Where the algorithms of [Covering] are (`docs/papers.md`):

| the paper's | is in |
| --- | --- |
| boxes as points (Fact 1) | `kernels/points.py` |
| subscribe and unsubscribe under G_k (III-C) | `kernels/forward.py` |
| the relation graph G_k (III-B) | `kernels/graph.py`, `relations.py` |
| G* and the poset | `alternatives/graphs.py` |
| the k-d tree (IV-C), the default covering index | `kernels/kd_tree.py`, `kd_arrays.py`, `leaf_groups.py` |
| the space-filling curve (IV-D), the scan | `alternatives/z_order.py`, `alternatives/linear.py` |

Not the paper's: which boxes hold a notification (`kernels/slabs.py`), and exactly-once links between services
(`outbox.py`, `inbox.py`, `plans/links.py`).
"""
