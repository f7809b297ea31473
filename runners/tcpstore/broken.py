"""A start that can't go on, as the processes around it tell it."""

from __future__ import annotations

from runners.runner import FailureKind, Json
from runners.tcpstore import network


class CrowdFailure(Exception):
    """A measurement that can't go on: ``kind`` as in runners.runner.Failure, ``said`` what torch said, as it said it.

    ``gone``: a process of it died, which mostly is the cause of what others say.
    """

    def __init__(self, kind: FailureKind, reason: str, said: str = "", *, gone: bool = False) -> None:
        self.kind, self.reason, self.said, self.gone = kind, reason, said, gone
        super().__init__(reason)

    def json(self) -> dict[str, Json]:
        """With what a reader elsewhere can't know: this host's limit of open files, and a port that is free here."""
        return {
            "kind": self.kind, "reason": self.reason, "said": self.said, "gone": self.gone,
            "nofile": network.descriptors().soft, "free": network.free_ports(1)[0],
        }  # fmt: skip


def port_taken(said: str) -> bool:
    """Whether torch says that somebody has the port; it spells this in two ways."""
    return "address already in use" in said.lower()
