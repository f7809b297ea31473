"""When more search can't pay, and why, in words."""

from __future__ import annotations
