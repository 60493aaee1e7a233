"""A gateway: streams of boards with zones from NATS, and everything else passed on to the service.

It has no indexes of objects and no kernels. Lists are kept by the tiles of their zones, as subscribers do it
([Range top-k] II-A); one copy of a zone's messages serves all its readers here.
"""
