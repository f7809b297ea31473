"""The aio block itself: the five keys as DeepSpeed loads them, put into a ds_config.json or read from one."""

from __future__ import annotations

import json
from collections.abc import Iterator

from runners.runner import Json
from spaces.aio import SPACE
from spaces.space import Config, Knob, Value
from tuner.errors import WrongUsage
from tuner.exporters import format as contract
from tuner.exporters.aio.names import AIO, ZERO, misnamed_aio
from tuner.exporters.aio.options import RENAMED, Options, read
from tuner.exporters.format import Format, Merged, find_format
from tuner.json_text.edit import move, remove, rename, set_value
from tuner.json_text.scan import Document, NotJson, Path, parse
from tuner.recommendation import Recommendation

FORMATS = (Format("aio", "aio.json", "DeepSpeed's aio block, a JSON object with the one key aio"),)

THREADS = "intra_op_parallelism"
# `num_threads` is what ds_nvme_tune prints; no DeepSpeed has ever read it.
THREAD_NAMES = (THREADS, "thread_count", "num_threads")

TOP: Path = (AIO,)


def render(recommendation: Recommendation, format: str, options: contract.Options) -> dict[str, str]:
    """One JSON file. DeepSpeed reads every byte of it, so it holds the block and nothing else."""
    chosen = find_format(FORMATS, format)
    block = written(recommendation.config, read(options))
    return {chosen.filename: json.dumps({"aio": block}, indent=2) + "\n"}


def written(config: Config, options: Options) -> dict[str, Json]:
    """A setting under the names that this DeepSpeed reads."""
    return {name_in(knob, options): config[knob.name] for knob in SPACE.knobs}


def name_in(knob: Knob, options: Options) -> str:
    return options.thread_key if knob.name == THREADS else knob.name


def merge(text: str, recommendation: Recommendation, options: contract.Options) -> Merged:
    """The five keys set at the top level; a block inside zero_optimization is brought there, one of a wrong name (AIO) gets
    its right one, dead thread keys are replaced.

    Raises WrongUsage for text that is no JSON object, or that holds a key twice: which of the two is meant only its author
    knows, and DeepSpeed refuses the file.
    """
    document = _document(text)
    for path, node in document.objects():
        names = [member.key for member in node.members]
        for name in names:
            if names.count(name) > 1:
                where = ".".join(map(str, (*path, name)))
                raise WrongUsage(f"{where} appears twice (line {document.key_line((*path, name))}); remove one of them first.")
    chosen = read(options)
    text, notes = _one_block(text)
    text, more = _one_thread_key(text, chosen)
    for name, value in written(recommendation.config, chosen).items():
        text = set_value(text, (*TOP, name), value)
    return Merged(text, (*notes, *more))


def nested(document: Document) -> Iterator[Path]:
    """Where aio blocks stand inside zero_optimization: its model takes no such key."""
    for path, node in document.objects():
        inside = path[:1] == (ZERO,) and any(member.key == AIO for member in node.members)
        # Of an object whose key appears twice, only the last can be reached, and counts.
        if inside and document.node(path) is node:
            yield (*path, AIO)


def present(text: str, options: contract.Options) -> dict[str, Value]:
    """The setting that DeepSpeed takes from this file, by knob; raises WrongUsage for values that no handle accepts."""
    chosen = read(options)
    block = _document(text).node(TOP)
    if block is None or (block.kind == "scalar" and block.value is None):
        return SPACE.default
    if block.kind != "object":
        raise WrongUsage("aio is not an object; `tune lint` shows what to mend.")
    values = block.value
    assert isinstance(values, dict)
    return {knob.name: _loaded(knob, name_in(knob, chosen), values) for knob in SPACE.knobs}


def _loaded(knob: Knob, name: str, values: dict[str, Json]) -> Value:
    """What the handle gets: DeepSpeed's own loader makes 1e6 an integer, the handle takes 0, 1 and null for a flag."""
    value = values.get(name, knob.default)
    if isinstance(knob.default, bool):
        if value is None or (isinstance(value, int | float) and value in (0, 1)):
            return bool(value)
    elif isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= knob.limit and knob.domain.ordinal:
        return value
    raise WrongUsage(f"aio.{name} is {json.dumps(value)}, which DeepSpeed can't use; `tune lint` shows what to mend.")


def _document(text: str) -> Document:
    try:
        document = parse(text)
    except NotJson as error:
        raise WrongUsage(f"this is not JSON (line {error.line}): {error.why}.") from None
    if document.root.kind != "object":
        raise WrongUsage("this is JSON but no object; a DeepSpeed configuration begins with '{'.")
    return document


def _one_block(text: str) -> tuple[str, list[str]]:
    """``text`` with at most one aio block, an object at the top level."""
    notes = []
    top = parse(text).node(TOP)
    if top is not None and top.kind != "object":
        text = set_value(text, TOP, {})
    misnamed = misnamed_aio(parse(text))
    if len(misnamed) == 1 and top is None:
        text = rename(text, misnamed[0], AIO)
        notes.append(f"renamed {misnamed[0][0]} to aio: DeepSpeed drops any other name without a word")
    while (path := next(nested(parse(text)), None)) is not None:
        inside, document = ".".join(map(str, path[:-1])), parse(text)
        here, there = document.node(TOP), document.node(path)
        assert there is not None
        if there.kind == "object" and (here is None or not here.members):
            text = move(remove(text, TOP) if here else text, path, TOP)
            notes.append(f"moved aio from {inside} to the top level: DeepSpeed refuses it inside zero_optimization")
        else:
            text = remove(text, path)
            notes.append(f"removed the aio inside {inside}: DeepSpeed refuses it there")
    return text, notes


def _one_thread_key(text: str, options: Options) -> tuple[str, list[str]]:
    """``text`` with no thread key in its block but the one that this DeepSpeed reads."""
    notes = []
    right = options.thread_key
    reader = f"DeepSpeed before {'.'.join(map(str, RENAMED))}" if right != THREADS else "DeepSpeed"
    for name in THREAD_NAMES:
        if name == right or parse(text).member((*TOP, name)) is None:
            continue
        if parse(text).member((*TOP, right)) is None:
            text = rename(text, (*TOP, name), right)
            notes.append(f"replaced {name} in aio by {right}, the name that {reader} reads")
        else:
            text = remove(text, (*TOP, name))
            notes.append(f"removed {name} from aio: {reader} reads {right}")
    return text, notes
