"""Matchers: the paper's experiments, and the kernels beside the prototype's."""
