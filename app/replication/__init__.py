"""Replicas: services that follow another one's log, and what passes between them and the leader."""
