"""Measuring how fast files are read through a mount: shared by the targets that mount (rclone, juicefs, alluxio)."""
