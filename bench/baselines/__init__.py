"""Algorithms that exist only for comparison: references of the papers and their unoptimised variants."""
