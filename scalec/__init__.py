"""scalec: one line of scaled einsum in, the kernel an expert would have written by hand out."""

__version__ = "0.1.0"
