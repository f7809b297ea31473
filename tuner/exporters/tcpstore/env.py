"""tcpstore.env: the variables that PyTorch obeys on this launch path, and those that our rendezvous.py and start.sh read."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from runners.runner import Json
from runners.tcpstore.switches import switch
from spaces.space import Config, Value
from spaces.tcpstore import SPACE
from tuner.errors import WrongUsage
from tuner.exporters import format as contract
from tuner.exporters.format import Format, Merged, find_format
from tuner.exporters.tcpstore import settings
from tuner.exporters.tcpstore.advice import advice
from tuner.exporters.tcpstore.options import Options, read
from tuner.exporters.tcpstore.start import script
from tuner.recommendation import Recommendation

FORMATS = (
    Format("env", "tcpstore.env", "variables for the job's environment, KEY=VALUE lines"),
    Format("start", "start.sh", "a start script for every rank or node, with tcpstore.env"),
    Format("python", "rendezvous.py", "a module that makes the store and its barriers so, with tcpstore.env"),
)

LIBUV = "USE_LIBUV"
OWN_STORE = "TORCH_DISABLE_SHARE_RDZV_TCP_STORE"
# PyTorch has no variables for these: rendezvous.py and start.sh read them.
OURS = {
    "barrier": "CLUSTERTUNE_BARRIER",
    "address": "CLUSTERTUNE_ADDRESS",
    "start": "CLUSTERTUNE_START",
    "backlog": "CLUSTERTUNE_BACKLOG",
}


def render(recommendation: Recommendation, format: str, options: contract.Options) -> dict[str, str]:
    """The env file, and what a format adds to it."""
    chosen = find_format(FORMATS, format)
    launch, read_options = _launch(recommendation, options)
    env = "".join(
        [*(f"# {line}\n" for line in advice(recommendation, launch)),
         *(f"{name}={value}\n" for name, value in variables(recommendation.config, launch, read_options).items())]
    )  # fmt: skip
    texts = {FORMATS[0].filename: env}
    if chosen.name == "start":
        return {chosen.filename: script(launch), **texts}
    if chosen.name == "python":
        return {chosen.filename: Path(__file__).with_name("rendezvous.py").read_text(encoding="utf-8"), **texts}
    return texts


def _launch(recommendation: Recommendation, options: contract.Options) -> tuple[str, Options]:
    torch = options.get("torch_version") or recommendation.machine.get("torch")
    read_options = read({**options, "torch_version": torch})
    launch = read_options.launch or recommendation.options.get("launch") or "script"
    return str(launch), read_options


def variables(config: Config, launch: str, options: Options) -> dict[str, str]:
    """The variables of a setting. Raises WrongUsage where no switch was seen to select its server."""
    backend = str(config["backend"])
    found = switch(options.rows, launch, backend)
    if found is None:
        raise WrongUsage(
            f"under {launch} of torch {options.torch} no switch selects the {backend} server.",
            "`python -m runners.tcpstore.switches` tries them with the torch that is installed",
        )
    if launch == "script":
        # Said even where it is the default: the environment that the job inherits may say something else.
        found = {LIBUV: "1" if backend == "libuv" else "0"}
    whole = {**SPACE.default, **config}  # a study of an older version knows fewer knobs
    return {**found, **{variable: str(whole[knob]) for knob, variable in OURS.items()}}


def merge(text: str, recommendation: Recommendation, options: contract.Options) -> Merged:
    """Our variables set in a user's env file or start script. Raises WrongUsage for text that is neither."""
    _refuse(text)
    launch, read_options = _launch(recommendation, {**options, "launch": options.get("launch") or _shown(text)})
    wanted = variables(recommendation.config, launch, read_options)
    notes = []
    present_now = settings.last(text)
    if LIBUV not in wanted and LIBUV in present_now:
        text = settings.assign(text, {LIBUV: "1"})
        notes.append(f"{LIBUV} is 1 now: under {launch} the store has the libuv server")
    return Merged(settings.assign(text, wanted), tuple(notes))


def present(text: str, options: contract.Options) -> dict[str, Value]:
    """The setting that a job gets with these variables, as this torch was seen to take them."""
    _refuse(text)
    chosen = read({key: value for key, value in options.items() if key != "world_size"})
    found = settings.last(text)
    launch = str(chosen.launch or _shown(text) or "script")
    now: dict[str, Value] = dict(SPACE.default)
    now["backend"] = backend_of({name: each.value for name, each in found.items()}, launch)
    for knob, variable in OURS.items():
        if variable not in found:
            continue
        value = found[variable].value
        if value not in SPACE[knob].domain.values:
            raise WrongUsage(f"{variable} is {value!r}; it is one of {', '.join(map(str, SPACE[knob].domain.values))}.")
        now[knob] = value
    return now


def backend_of(values: Mapping[str, str], launch: str) -> str:
    """The server of a job's store: torch takes exactly 1 for libuv, and torchrun's workers share its agent's."""
    if launch == "torchrun" and values.get(OWN_STORE) != "1":
        return "libuv"
    return "libuv" if values.get(LIBUV, "1") == "1" else "legacy"


def _shown(text: str) -> Json:
    """How the file itself starts the job, None where it doesn't show."""
    if settings.torchrun_line(text) is not None or OWN_STORE in settings.last(text):
        return "torchrun"
    return None


def _refuse(text: str) -> None:
    if "\0" in text or text.lstrip("\ufeff \t\r\n").startswith(("{", "[", "<")):
        raise WrongUsage("this is neither an env file (KEY=VALUE lines) nor a shell script.")
