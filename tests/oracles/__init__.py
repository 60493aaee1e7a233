"""Brute-force truth: plain Python, obviously correct, sharing no code with what it checks."""
