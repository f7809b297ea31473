"""Our search and other people's, each run for real, and all that they picked raced side by side."""
