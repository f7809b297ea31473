"""Ways between ranks that don't work: what hangs once with them hangs again, and costs its whole limit each time."""

from __future__ import annotations

from runners.oneccl.failures import NO_PROVIDER
from runners.oneccl.warm import NOT_TOGETHER
from runners.runner import Failure
from spaces.space import Config

# Knobs that decide how ranks reach each other.
_KNOBS = ("transport", "provider", "shm", "fabrics", "mnic")


class Ways:
    """``usual`` is the baseline's, about which nothing is ever held against: a study without it has no answer."""

    def __init__(self, usual: Config) -> None:
        self._usual = self._of(usual)
        self._known: dict[tuple[object, ...], Failure] = {}

    @staticmethod
    def _of(config: Config) -> tuple[object, ...]:
        return tuple(config[name] for name in _KNOBS)

    def known(self, config: Config) -> Failure | None:
        """What came of another setting with this way."""
        found = self._known.get(self._of(config))
        return Failure(found.kind, found.reason) if found else None

    def learn(self, config: Config, failure: Failure) -> None:
        """A start that hung, or a provider that didn't open, ends its way; other failures say nothing about it."""
        if self._of(config) != self._usual and failure.reason.startswith((NOT_TOGETHER, NO_PROVIDER)):
            self._known.setdefault(self._of(config), failure)
