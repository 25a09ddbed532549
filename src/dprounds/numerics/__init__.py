"""Floats, not privacy: log space, root search, rounding to a stated side."""
