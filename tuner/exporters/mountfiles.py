"""What the files of all mount targets have in common: first comments, scripts, systemd units and fstab lines."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from spaces.background import CONNECTIONS
from tuner.errors import WrongUsage
from tuner.exporters import format as contract
from tuner.exporters import mountkernel
from tuner.recommendation import Recommendation

_PLAIN = re.compile(r"[\w@+:,./=-]+", re.ASCII)

# Folders of which a login shell, cron and systemd look through all.
_ON_EVERY_PATH = ("/usr/local/bin", "/usr/bin", "/bin")


@dataclass(frozen=True, slots=True)
class Mount:
    """A mount to be written down: ``program`` mounts ``what`` on ``point`` with ``settings``, option by value.

    ``kind`` is what the program is called, ``program`` that name or a path.

    ``words`` are further options as they stand, ``variable`` is what a script calls ``what``, ``background`` how the program
    is sent there, ``ready`` whether it tells systemd that it has mounted. ``read_ahead`` in bytes and
    ``max_background``, 0 for as it is, are the kernel's.
    """

    kind: str
    program: str
    what: str
    point: str
    settings: Mapping[str, str]
    variable: str
    background: str
    words: Sequence[str] = ()
    read_ahead: int = mountkernel.GRANTED
    max_background: int = 0
    ready: bool = False

    def as_root(self, point: str) -> list[str]:
        """Shell commands that root runs once it is mounted on ``point``, a word of that shell."""
        return mountkernel.commands(point, self.read_ahead, self.max_background)


def head(recommendation: Recommendation, what: str) -> list[str]:
    """The first comments of a file, without their signs."""
    lines = [f"{what}, by clustertune (study {recommendation.study})"]
    gain, options = recommendation.gain, recommendation.options
    if recommendation.decision == "keep":
        lines.append("Nothing beat the baseline, and this is the baseline itself.")
    elif gain is not None:
        lines.append(
            f"{gain.ratio:.2f}x the speed of the baseline ({gain.low:.2f}x to {gain.high:.2f}x with {gain.confidence:.0%} "
            f"confidence), {options.get('pattern', 'sequential')} reads by {options.get('jobs', 'several')} at once"
            f"{_on_hosts(recommendation)}."
        )
    return lines


def _on_hosts(recommendation: Recommendation) -> str:
    hosts = recommendation.machine.get("hosts")
    return f" on each of {len(hosts)} hosts" if isinstance(hosts, list) and len(hosts) > 1 else ""


def program(recommendation: Recommendation, usual: str) -> str:
    """The mount program that was measured: ``usual`` where every PATH has it, else its path."""
    measured = recommendation.evidence.get("measured")
    live = measured.get("live") if isinstance(measured, dict) else None
    path = live.get("program") if isinstance(live, dict) else None
    if not isinstance(path, str) or not path.startswith("/") or path in {f"{folder}/{usual}" for folder in _ON_EVERY_PATH}:
        return usual
    return path


def linked(mount: Mount) -> str:
    """What a line of fstab needs beside it."""
    path = _quoted(mount.program) if "/" in mount.program else f"$(command -v {mount.program})"
    return f"mount finds {mount.kind} by a link, made once as root: ln -s {path} /sbin/mount.{mount.kind}"


def comments(lines: Sequence[str]) -> str:
    return "".join(f"# {line}\n" for line in (line.replace("\n", " ") for line in lines))


def mount_point(options: contract.Options, usual: str) -> str:
    """The option --mount-point, or ``usual``. Raises WrongUsage."""
    given = options.get("mount_point")
    point = usual if given is None else str(given)
    if not point.startswith("/") or not point.isprintable():
        raise WrongUsage(f"--mount-point {point}: must be an absolute path.")
    return point


def script(mount: Mount, about: Sequence[str]) -> str:
    """A script that mounts in the background; what is mounted, and where, can be given to it."""
    name, shown = mount.variable, mount.variable.upper()
    words = [
        f"{_quoted(mount.program)} mount",
        *(f"--{option}={value}" for option, value in mount.settings.items()),
        *(_quoted(word) for word in mount.words),
        f'{mount.background} "${name}" "$point"',
    ]
    text = (
        f"#!/bin/sh\n{comments(about)}# Usage: mount.sh [{shown} [DIR]]\nset -eu\n"
        f"{name}=${{1:-{_quoted(mount.what)}}}\npoint=${{2:-{_quoted(mount.point)}}}\n"
        'mkdir -p "$point"\n' + " \\\n    ".join(words) + "\n"
    )
    if commands := mount.as_root('"$point"'):
        needs = f"; max_background needs fusectl on {CONNECTIONS}" if mount.max_background else ""
        text += f"# The kernel gives a mount no more of this by itself: it takes root{needs}.\n"
        text += "".join(f"{command}\n" for command in commands)
    return text


def unit(mount: Mount, about: Sequence[str]) -> str:
    """A systemd unit that keeps it mounted."""
    point = _unit_word(mount.point)
    words = [
        f"{_unit_word(mount.program) if '/' in mount.program else f'/usr/bin/env {mount.program}'} mount",
        *(f"--{option}={value}" for option, value in mount.settings.items()),
        *(_unit_word(word) for word in mount.words),
        f"{_unit_word(mount.what)} {point}",
    ]
    raised = ""
    if commands := mount.as_root('"$1"'):
        wait = "" if mount.ready else 'until mountpoint -q "$1"; do sleep 0.2; done; '
        line = f"{wait}{' && '.join(commands)}".replace("$", "$$")
        raised = f"ExecStartPost=+/bin/sh -c '{line}' sh {point}\n"
    return (
        f"{comments(about)}[Unit]\nDescription={mount.kind} mount\nWants=network-online.target\n"
        f"After=network-online.target\n\n[Service]\nType={'notify' if mount.ready else 'simple'}\n"
        f"ExecStartPre=/bin/mkdir -p {point}\nExecStart=" + " \\\n    ".join(words) + f"\n{raised}"
        f"ExecStop=/bin/umount -l {point}\nRestart=on-failure\n\n[Install]\nWantedBy=multi-user.target\n"
    )


def fstab(mount: Mount, about: Sequence[str], options: Sequence[str]) -> str:
    """A line for fstab; ``options`` come before the settings."""
    if bad := [word for word in options if "," in word or not word.isprintable()]:
        raise WrongUsage(f"--format fstab: {bad[0]!r} holds a comma, which fstab can't.", "take another format")
    chosen = ",".join(["_netdev", "nofail", *options, *(f"{option}={value}" for option, value in mount.settings.items())])
    above = comments([*about, linked(mount), *by_hand(mount)])
    return f"{above}{_field(mount.what)} {_field(mount.point)} {mount.kind} {_field(chosen)} 0 0\n"


def by_hand(mount: Mount) -> list[str]:
    """Comments for files that can't say what root runs once it is mounted."""
    commands = mount.as_root(_quoted(mount.point))
    return [f"Once mounted, as root: {'; '.join(commands)}"] if commands else []


def _quoted(word: str) -> str:
    """A word for a shell, also as a default inside ${1:-...}."""
    return word if _PLAIN.fullmatch(word) else "'" + word.replace("'", "'\\''") + "'"


def _unit_word(word: str) -> str:
    """A word as systemd reads it: % and $ stand for themselves only twice."""
    doubled = word.replace("%", "%%").replace("$", "$$")
    return doubled if _PLAIN.fullmatch(word) else '"' + doubled.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _field(word: str) -> str:
    return "".join(f"\\{ord(letter):03o}" if letter in " \t\\#" else letter for letter in word)
