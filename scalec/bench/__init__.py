"""The benchmark harness: see README.md."""
