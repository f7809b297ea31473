"""A user's mount script, unit or fstab line as settings: merged with a recommendation, and read as the baseline to beat."""

from __future__ import annotations

import re

from runners.runner import Json
from spaces.juicefs import SPACE
from spaces.space import Value
from tuner.errors import WrongUsage
from tuner.exporters import format as contract
from tuner.exporters import mountline
from tuner.exporters.format import Merged
from tuner.exporters.juicefs.words import GRANTED, KNOBS, SWITCHES, ahead, read, values
from tuner.exporters.mountkernel import commands, max_background, with_max_background
from tuner.recommendation import Recommendation

PROGRAM = "juicefs"
_AHEAD = re.compile(r"\becho[ \t]+(?P<kib>\d{1,9})[ \t]*>[ \t]*[\"']?/sys/class/bdi/[^\n]*read_ahead_kb")
_ASIDE = ("cache-size", "cache-dir", "cache-partial-only", "writeback", "open-cache", "max-fuse-io", "o")


def merge(text: str, recommendation: Recommendation, options: contract.Options) -> Merged:  # noqa: ARG001
    """Our options in each juicefs mount command or fstab line of a user's file. Raises WrongUsage where there is none."""
    refuse(text)
    for name, value in values(recommendation.config).items():
        text = mountline.put(text, PROGRAM, name, value, SWITCHES)
    text, by_hand = with_max_background(text, int(recommendation.config.get("max_background", 0)))
    wanted, now = ahead(recommendation.config), _ahead(text)
    if wanted == now:
        return Merged(text, by_hand)
    if match := _AHEAD.search(text):
        return Merged(f"{text[: match.start('kib')]}{wanted >> 10}{text[match.end('kib') :]}", by_hand)
    return Merged(text, (f"once mounted, as root: {commands('DIR', wanted, 0)[0]}", *by_hand))


def present(text: str, options: contract.Options) -> dict[str, Value]:  # noqa: ARG001
    """The setting that a mount gets with this file. Raises WrongUsage for values that juicefs refuses."""
    refuse(text)
    now: dict[str, Value] = dict(SPACE.default)
    for setting in mountline.settings(text, PROGRAM, SWITCHES):
        if setting.name in KNOBS:
            try:
                now[KNOBS[setting.name].name] = read(KNOBS[setting.name], setting.value)
            except ValueError as error:
                raise WrongUsage(f"--{setting.name}: {error}.", "`tune lint` shows what to mend") from None
    now["kernel_read_ahead"] = _ahead(text)
    now["max_background"] = max_background(text)
    return now


def _ahead(text: str) -> int:
    match = _AHEAD.search(text)
    return int(match["kib"]) << 10 if match else GRANTED


def present_notes(text: str, options: contract.Options) -> list[str]:  # noqa: ARG001
    """What the file says of reading that the baseline then doesn't have, a sentence each."""
    named = {each.name for each in mountline.settings(text, PROGRAM, SWITCHES)}
    aside = sorted(named.intersection(_ASIDE))
    return [f"{', '.join(aside)}: not tuned, and not part of the baseline"] if aside else []


def machine_options() -> dict[str, Json]:
    """Nothing of this machine bears on a mount's file."""
    return {}


def refuse(text: str) -> None:
    """Raises WrongUsage for text without a juicefs mount in it."""
    if "\0" in text or not mountline.commands(text, PROGRAM):
        raise WrongUsage("there is no `juicefs mount` in it, and no fstab line of type juicefs.")
