"""The fast path: short requests are carried out in groups, by one command or one commit for all of a group.

A request is parsed as soon as it is complete, over HTTP or in a frame of a socket, and joins the open group of its
resource. At the end of the turn of the event loop, or of the next ones while more come, each group is checked, logged
and applied, and each of its requests gets an answer of its own. Whatever else a request has sends it to the slow path,
through the routes; so do a refusal over HTTP, and the refusal of a group as a whole.
"""
