"""The benchmark of feeds: subscription indexes and buffers, and the prototype."""
