"""From a program as written to one contraction with all that follows it."""
