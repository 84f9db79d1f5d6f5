"""Schedules that were measured: the key of a program, and the databases that have its entries."""
