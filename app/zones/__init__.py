"""Boards whose tiles are published by zone on NATS: the zones' index, the publisher, and the balance of zones."""
