"""Finalists against the baseline in shuffled rounds, until the answer is known."""
