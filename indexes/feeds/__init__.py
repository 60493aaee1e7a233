"""Feeds: the k most relevant recent posts for a place and some words, under a stream of posts."""
