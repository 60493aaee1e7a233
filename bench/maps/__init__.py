"""The maps' benchmark: the paper's experiments with moving skylines, and the baselines that it compares with."""
