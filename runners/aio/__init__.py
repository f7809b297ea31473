"""Measuring DeepSpeed's aio settings with real direct I/O on a real file system."""
