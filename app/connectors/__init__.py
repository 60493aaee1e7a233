"""Connectors: events from a broker into a resource, and stream events of subscriptions out to a broker.

`mapping` reads messages, `batches` cuts what waits into requests, `service` sends them, `sources` and `targets` know a
broker each, `connector` and `publisher` put these together. Clients of brokers are the extra `connect`, imported when
they are needed.
"""
