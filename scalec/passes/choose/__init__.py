"""One decision a file, in the order of the pipeline."""
