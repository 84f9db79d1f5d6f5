"""What schedules are predicted to take, how they are ranked, and explanations of what was chosen."""
