"""Predictions of schedules from documented rates, and explanations of what was chosen."""
