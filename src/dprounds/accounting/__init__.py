"""A moment function in, a guarantee out."""
