"""Dissemination by zones: the parts of the plane of subscriptions, their tasks, and the batches of a stream."""
