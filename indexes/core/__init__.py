"""Building blocks that the engines of all five resources share.

Start with `plan`, the life of an accepted command.
"""
