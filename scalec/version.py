"""The version of scalec."""

__version__ = "0.1.0"
