"""Spatial-keyword: the k most relevant posts of a window for a place and some keywords, under a stream of posts.

Where the algorithms of [Spatial-keyword] are (`docs/papers.md`):

| the paper's | is in |
| --- | --- |
| recipients of a post | `kernels/recipients.py`, by threshold-ordered postings, `kernels/postings.py` |
| the partial k-skyband of a subscription, its buffer | `kernels/buffers.py` |
| the threshold of a buffer by its cost | `theta.py` |
| what happens when a post arrives or expires | `kernels/step.py` (`take_in`, `expire_oldest`) |
| quadtree cells | `kernels/cells.py` |
| subscriptions in two parts by cell, for two threads | `parts.py` |
| partitions for distributed execution | `shards/`, `kernels/copies.py` |

`feed.py` has the index of one feed, built on `publishing.py`, `epochs.py`, `lists.py` and `base.py`; `engine.py` has
the feed behind the writer.
"""
