"""Matchers: the experiments of [Ranked matching], and the kernels compared with the prototype's."""
