"""Links between relays of several services: what is sent over them, and that they form a tree.

Start reading in `tree.py`; it has a `sender.py` for each link, which sends requests to the other service through a
`peer.py`. Messages from links are received by the routes in `app.api.relays.routes.links`.
"""
