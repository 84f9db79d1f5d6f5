"""Geometry from the PTX ISA's figures: where the elements of tiles, fragments and tensor memory lie. Pure functions."""
