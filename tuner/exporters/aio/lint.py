"""Finds what is dead, misspelt or harmful in a ds_config.json, and mends what can be mended without asking."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from tuner.exporters import format as contract
from tuner.exporters.aio import block_rules, model_rules, offload_rules, place_rules
from tuner.exporters.aio.names import AIO, misnamed_aio, misnamed_zero, offload_meant
from tuner.exporters.aio.options import Options, read
from tuner.exporters.format import Finding, mended
from tuner.exporters.issue import Issue
from tuner.json_text.edit import drop_comma, remove_member
from tuner.json_text.scan import Document, Node, NotJson, parse

# Any of these at the top level makes a JSON file a DeepSpeed configuration.
_SIGNS = frozenset(
    {
        "aio",
        "zero_optimization",
        "train_batch_size",
        "train_micro_batch_size_per_gpu",
        "gradient_accumulation_steps",
        "bf16",
        "fp16",
    }
)
_NAMES = ("ds_", "ds-", "deepspeed", "zero")

_STRICT = (
    "DeepSpeed's own loader accepts it, but Transformers and Accelerate load the file with Python's json, which fails on it"
)


def matches(filename: str, text: str) -> bool:
    """A JSON object with a key of DeepSpeed's, or a .json file that is named like one or holds no JSON object at all."""
    named_json = filename.lower().endswith(".json")
    try:
        document = parse(text)
    except NotJson:
        return named_json
    root = document.root
    if root.kind != "object":
        return named_json
    if any(member.key in _SIGNS or offload_meant(member.key) for member in root.members):
        return True
    if misnamed_aio(document) or misnamed_zero(document):
        return True
    return named_json and any(part in filename.lower() for part in _NAMES)


def lint(text: str, options: contract.Options) -> list[Finding]:
    """Every finding, in line order."""
    return [issue.finding for issue in _issues(text, read(options))]


def fix(text: str, options: contract.Options) -> str:
    """``text`` with the safe mends made, one after the other, each judged on what the one before left."""
    chosen = read(options)
    return mended(text, lambda now: next((issue.edit for issue in _issues(now, chosen) if issue.edit), None))


def present_notes(text: str, options: contract.Options) -> list[str]:
    """What the aio block says and DeepSpeed does not do, a sentence each: ``present`` gives what it does."""
    chosen = read(options)
    try:
        document = parse(text)
    except NotJson:
        return []
    if document.root.kind != "object":
        return []
    found = [
        *_duplicates(document),
        *block_rules.issues(document, chosen),
        *(issue for issue in place_rules.issues(document) if issue.key == AIO),
    ]
    notes = [f"{issue.key} (line {issue.line}): {issue.message}" for issue in sorted(found, key=lambda issue: issue.line)]
    if not notes and document.node((AIO,)) is None:
        return ["there is no aio block in it: DeepSpeed's defaults are taken"]
    return [*notes[:-1], f"{notes[-1]}; `tune lint` says how to mend the file"] if notes else []


def _issues(text: str, options: Options) -> list[Issue]:
    try:
        document = parse(text)
    except NotJson as error:
        return [Issue(error.line, "", f"this is not JSON: {error.why}", "correct this line")]
    if document.root.kind != "object":
        return [Issue(1, "", "a DeepSpeed configuration is a JSON object, in braces", 'write it like {"aio": {…}}')]
    twice = list(_duplicates(document))
    rest = [
        *block_rules.issues(document, options),
        *place_rules.issues(document),
        *model_rules.issues(document),
        *offload_rules.issues(document, options),
    ]
    # Which of two the author meant is open until one is gone, and an edit would change but the last.
    open_keys = {issue.key for issue in twice}
    rest = [replace(issue, edit=None) if issue.key in open_keys else issue for issue in rest]
    return sorted([*_syntax(document), *twice, *rest], key=lambda issue: issue.line)


def _syntax(document: Document) -> Iterator[Issue]:
    text = document.text
    if text.startswith("\ufeff"):
        yield Issue(1, "", f"the file begins with a byte order mark: {_STRICT}", "remove the mark", lambda text: text[1:])
    if document.comments:
        line = document.line(document.comments[0][0])
        yield Issue(line, "", f"the file holds comments: {_STRICT}", "remove the comments")
    for offset in document.trailing_commas():
        yield Issue(
            document.line(offset),
            "",
            f"a comma before a closing bracket: {_STRICT}",
            "remove the comma",
            partial(drop_comma, offset=offset),
        )


def _duplicates(document: Document) -> Iterator[Issue]:
    for path, node in document.objects():
        first: dict[str, int] = {}
        for index, member in enumerate(node.members):
            earlier = first.setdefault(member.key, index)
            if earlier == index:
                continue
            same = node.members[earlier].node.value == member.node.value
            yield Issue(
                document.line(member.start),
                ".".join(map(str, (*path, member.key))),
                f"{member.key} is here a second time (first in line {document.line(node.members[earlier].start)}); "
                "DeepSpeed refuses a file that holds a key twice, and other findings look at this one",
                "remove this one, both say the same" if same else "remove one of the two",
                partial(_without, document, node, index) if same else None,
            )


def _without(document: Document, node: Node, index: int, _text: str) -> str:
    return remove_member(document, node, index)
