"""Small writes that are carried out together: all that arrive in one turn of the event loop for one resource.

Each of them is parsed when it is complete, whether it came over HTTP or in a frame of a socket. At the end of the turn
those of a resource become one command, which is checked, logged and applied once, and each is answered for itself. What
is out of the ordinary in a request takes the slow path, through the routes: so do refusals over HTTP, and all requests
of a group that could not be carried out.
"""
