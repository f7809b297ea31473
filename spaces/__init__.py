"""What can be tuned: pure data, one module a target, importing nothing of ours but each other."""
