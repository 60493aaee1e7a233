"""The speed of two checkouts, in alternation."""
