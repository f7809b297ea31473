"""The site file of a recommendation, alone or merged into the user's, and the settings that a file gives."""

from __future__ import annotations

from runners.alluxio.site import Unreadable, beside, block_of, dead, merged, settings
from spaces.alluxio import Version, in_version, keys_of
from spaces.space import Config, Value
from tuner import verdict
from tuner.errors import WrongUsage
from tuner.exporters import format as contract
from tuner.exporters.alluxio.options import Options, measured_on, read
from tuner.exporters.format import Merged
from tuner.recommendation import Recommendation

FILENAME = "alluxio-site.properties"


def site_file(recommendation: Recommendation, options: Options) -> str:
    """A site file with our block alone."""
    return _with_block("", recommendation, options)


def merge(text: str, recommendation: Recommendation, options: contract.Options) -> Merged:
    """The user's file with our block in it, or in place of an older one. Raises WrongUsage for a file Java can't read."""
    chosen = read(options, recommendation)
    refuse(text)
    try:
        whole = _with_block(text, recommendation, chosen)
    except Unreadable as error:
        raise WrongUsage(f"{error}.", "tune lint shows what is wrong, and --fix mends what is plain") from None
    notes = [*beside(recommendation.config), "--format env writes the option of the JVM"]
    if chosen.version is None:
        notes.append("no version of Alluxio is known, so keys of all are written: name it with --alluxio-version")
    return Merged(whole, tuple(notes))


def present(text: str, options: contract.Options) -> dict[str, Value]:
    """The settings that Alluxio takes from a site file. Raises WrongUsage."""
    refuse(text)
    try:
        return settings(text, read(options).version)
    except Unreadable as error:
        raise WrongUsage(f"{error}.") from None


def present_notes(text: str, options: contract.Options) -> list[str]:
    """Where Alluxio takes no notice of what a file says, a sentence each."""
    version = read(options).version
    return [f"line {entry.line}: {key.name} does nothing in Alluxio {version.title}; {key.where} has it"
            for entry, key in dead(text, version) if version is not None]  # fmt: skip


def refuse(text: str) -> None:
    if "\0" in text or text.lstrip("\ufeff\xef\xbb\xbf \t\r\n").startswith(("{", "[", "<")):
        raise WrongUsage("this is no properties file (lines of key=value).")


def for_version(config: Config, version: Version | None) -> dict[str, Value]:
    """The part of a setting that the version has."""
    return {name: value for name, value in config.items() if in_version(name, version)}


def head(recommendation: Recommendation, options: Options) -> list[str]:
    """What our block says of itself: where it comes from, and what it is worth."""
    day = measured_on(recommendation, options)
    of = f" for Alluxio {options.version.text}" if options.version is not None else ""
    lines = [f"study {recommendation.study}{of}{f', {day}' if day else ''}: {worth(recommendation)}",
             *beside(recommendation.config)]  # fmt: skip
    # They become comments of files that other programs read: nothing in a name may end the line.
    return ["".join(letter if " " <= letter <= "~" else "?" for letter in line) for line in lines]


def worth(recommendation: Recommendation) -> str:
    gain = recommendation.gain
    if recommendation.decision == "keep":
        return "nothing beat the settings that were there, and these are they"
    if gain is None:
        return "measured, and no gain proven"
    return f"{verdict.faster(gain.ratio)} ({verdict.interval(gain)})"


def values(recommendation: Recommendation, text: str, options: Options) -> dict[str, str]:
    """The properties to write over ``text``: also those that are Alluxio's default and not what the baseline had."""
    config, before = for_version(recommendation.config, options.version), recommendation.baseline
    changed = [key.name for knob, value in config.items() if before.get(knob, value) != value for key in keys_of(knob)]
    return block_of(config, text, options.version, changed)


def _with_block(text: str, recommendation: Recommendation, options: Options) -> str:
    return merged(text, values(recommendation, text, options), head(recommendation, options))
