"""A user's env file, script, unit or fstab line as settings: merged with a recommendation, and read as the baseline."""

from __future__ import annotations

from runners.runner import Json
from spaces.rclone import SPACE
from spaces.space import Value
from tuner.errors import WrongUsage
from tuner.exporters import format as contract
from tuner.exporters import mountline
from tuner.exporters.format import Merged
from tuner.exporters.mountkernel import max_background, with_max_background
from tuner.exporters.rclone.words import KNOBS, SWITCHES, read, values, variable
from tuner.exporters.shell import assign, last
from tuner.recommendation import Recommendation

PROGRAM = "rclone"


def merge(text: str, recommendation: Recommendation, options: contract.Options) -> Merged:  # noqa: ARG001
    """Our settings in a user's file: an option of its mount command where it stands or is to go, else a variable.

    Raises WrongUsage for text that is no such file.
    """
    refuse(text)
    wanted = values(recommendation.config)
    text, by_hand = with_max_background(text, int(recommendation.config.get("max_background", 0)))
    if not mountline.commands(text, PROGRAM):
        return Merged(assign(text, {variable(name): value for name, value in wanted.items()}), by_hand)
    present_options = {each.name for each in mountline.settings(text, PROGRAM, SWITCHES)}
    assigned = last(text)
    for name, value in wanted.items():
        # An option wins over a variable, so it is written where either stands already.
        if name not in present_options and variable(name) in assigned:
            text = assign(text, {variable(name): value})
        else:
            text = mountline.put(text, PROGRAM, name, value, SWITCHES)
    return Merged(text, by_hand)


def present(text: str, options: contract.Options) -> dict[str, Value]:  # noqa: ARG001
    """The setting that a mount gets with this file. Raises WrongUsage for values that rclone refuses or that aren't tuned."""
    refuse(text)
    now: dict[str, Value] = dict(SPACE.default)
    assigned = last(text)
    for name, knob in KNOBS.items():
        if (each := assigned.get(variable(name))) is not None:
            now[knob.name] = _read(name, variable(name), each.value)
    for setting in mountline.settings(text, PROGRAM, SWITCHES):
        if setting.name in KNOBS:
            written = "true" if setting.bare and setting.name in SWITCHES else setting.value
            now[KNOBS[setting.name].name] = _read(setting.name, f"--{setting.name}", written)
    now["max_background"] = max_background(text)
    return now


def _read(name: str, shown: str, text: str) -> Value:
    try:
        return read(KNOBS[name], text)
    except ValueError as error:
        raise WrongUsage(f"{shown}: {error}.", "`tune lint` shows what to mend") from None


def present_notes(text: str, options: contract.Options) -> list[str]:  # noqa: ARG001
    """What the file says of reading that the baseline then doesn't have, a sentence each."""
    named = {each.name for each in mountline.settings(text, PROGRAM, SWITCHES)}
    named |= {name.removeprefix("RCLONE_").lower().replace("_", "-") for name in last(text) if name.startswith("RCLONE_")}
    aside = sorted(
        named & {"vfs-cache-mode", "vfs-read-ahead", "vfs-read-chunk-size-limit", "vfs-read-wait", "direct-io", "use-mmap"}
    )
    return [f"{', '.join(aside)}: not tuned, and not part of the baseline"] if aside else []


def machine_options() -> dict[str, Json]:
    """Nothing of this machine bears on a mount's file."""
    return {}


def refuse(text: str) -> None:
    """Raises WrongUsage for text that can't be an env file, script, unit or fstab."""
    if "\0" in text or text.lstrip("\ufeff \t\r\n").startswith(("{", "<")):
        raise WrongUsage("this is neither an env file (KEY=VALUE lines), a script, a systemd unit nor an fstab.")
