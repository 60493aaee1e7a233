"""Boards with several range attributes: objects are points of R^d, subscriptions are regions of a shape each."""
