"""The compiled kernels of boards.

`step` paints and applies one event after the other. `paint` paints one change ([Range top-k] III): it walks the object
index (`object_index`, `range_tree`) for the object's influence region (`region`) and covers its strips with `tiles`,
all of them in Paint-Dense, those with subscriptions in Paint-Sparse (`paint_sparse`, on `forest`, `shortlist` or
`sketch`). The modules named `batch_...` are Paint-Batch; `scan` is the reference for verification.
"""
