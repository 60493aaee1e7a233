"""Ranked matching: the scored interval indexes of Machanavajjhala et al., and the engine of a matcher."""
