"""What a schedule costs, by documented rates: asked by the passes that choose, by `explain` and by the tuner."""
