"""Several client hosts that mount and read at the same time, each as a single one would."""
