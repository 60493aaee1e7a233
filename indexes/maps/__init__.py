"""Moving queries: the skyline and the top-k around a place, and how far one may go before they change.

Where the algorithms of [Moving queries] are (`docs/papers.md`):

| the paper's | is in |
| --- | --- |
| skyline and its safe zone, Lemmas 6 to 8 | `kernels/two_phase.py`, `kernels/cuts.py` |
| the same by other metrics: a circle | `zones/circle.py` |
| m-relaxed zone of a top-k, Algorithms 3 and 6 | `kernels/top_zone.py` |
| preferred circles, Definitions 8 and 9, Algorithms 4 and 5 | `kernels/circles.py`, `kernels/rectangles.py` |
| scores, equations (1) to (3) | `kernels/scores.py` |

Standing queries, whose zones are kept while objects change, are in `live/`: `queries.py` first.
"""
