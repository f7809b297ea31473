"""What every target's exporter speaks: formats, findings, merged files, and the functions that its module has."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Protocol, cast

from runners.runner import Json
from spaces.space import Value
from tuner.errors import WrongUsage
from tuner.recommendation import Recommendation

# What a user or this machine adds to a recommendation: the version that will read the file, ranks, limits. Each exporter
# knows its own keys and passes over the others, so one mapping serves all targets.
Options = Mapping[str, Json]


@dataclass(frozen=True, slots=True)
class Format:
    """One way to write a recommendation down; ``filename`` is what its (first) file is called where the user names none."""

    name: str
    filename: str
    help: str


@dataclass(frozen=True, slots=True)
class Finding:
    """A setting of a user's file that is dead, misspelt or harmful.

    ``line`` counts from 1; ``key`` is the dotted path of the setting, "" for the file as a whole; ``mend`` is what to do;
    ``safe`` says that ``fix`` does it: the file then means what its author plainly meant, and nothing that works changes.
    """

    line: int
    key: str
    message: str
    mend: str
    safe: bool

    def json(self) -> dict[str, Json]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Merged:
    """A user's file with the recommendation in it, and what else had to change for that, a sentence each."""

    text: str
    notes: tuple[str, ...] = ()


class Exporter(Protocol):
    """The module of a target. All is pure but ``machine_options``; texts keep their line ends and byte order mark.

    ``FILE_OPTIONS`` is a dataclass whose fields become options of `tune export` and `tune lint`.
    """

    FORMATS: tuple[Format, ...]
    FILE_OPTIONS: type[object]

    def render(self, recommendation: Recommendation, format: str, options: Options) -> dict[str, str]:
        """File names and their texts. Raises WrongUsage for a format or option that can't be used."""

    def merge(self, text: str, recommendation: Recommendation, options: Options) -> Merged:
        """The user's file with our keys set and all else kept byte for byte. Raises WrongUsage for text it can't read."""

    def present(self, text: str, options: Options) -> dict[str, Value]:
        """The settings that a file gives now, by knob, defaults filled in as the tuned system does. Raises WrongUsage."""

    def present_notes(self, text: str, options: Options) -> list[str]:
        """Where the tuned system takes something else from a file than it says (dead keys, a block in a wrong place), a
        sentence each; empty where ``present`` gives what is written, or raises.
        """

    def matches(self, filename: str, text: str) -> bool:
        """Whether this is a file whose settings ``lint`` understands."""

    def lint(self, text: str, options: Options) -> list[Finding]:
        """What is wrong with a file, in line order; empty when nothing is."""

    def fix(self, text: str, options: Options) -> str:
        """``text`` with every safe mend done."""

    def machine_options(self) -> dict[str, Json]:
        """What this machine says about options that the user left open: cheap to read, nothing heavy imported."""


def find_format(formats: tuple[Format, ...], name: str) -> Format:
    """The format of that name; raises WrongUsage with the names there are."""
    for format in formats:
        if format.name == name:
            return format
    raise WrongUsage(f"--format {name}: there is no such format.", f"the formats are: {', '.join(f.name for f in formats)}")


def mended(text: str, next_edit: Callable[[str], Callable[[str], str] | None]) -> str:
    """``text`` with one edit after the other made, each asked for on what the one before left, until there is none."""
    while (edit := next_edit(text)) is not None:
        changed = edit(text)
        if changed == text:
            raise AssertionError("a mend changed nothing")
        text = changed
    return text


def whole_number(options: Options, name: str, default: int | None) -> int | None:
    """A count > 0 among ``options``, or ``default``; raises WrongUsage that names the option."""
    value = options.get(name)
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise WrongUsage(f"--{name.replace('_', '-')} {value}: must be a whole number of at least 1.")
    return value


def as_exporter(module: object) -> Exporter:
    """A target's module, typed."""
    return cast(Exporter, module)
