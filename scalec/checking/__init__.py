"""A kernel on made-up data, beside the reference."""
