"""Relays of several services as one tree: what is sent over links, and that they close no cycle.

`overlay.py` is the whole of it and the place to start reading; it has a `sender.py` for each link, which speaks to the
other side through a `peer.py`. What comes in over links is a route as any other, `app.api.relay_links`.
"""
