"""Finds what is dead, misspelt or harmful in a ds_config.json, and mends what can be mended without asking."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from tuner.exporters import format as contract
from tuner.exporters.aio import block_rules, offload_rules
from tuner.exporters.aio.issue import Issue
from tuner.exporters.aio.options import Options, read
from tuner.exporters.format import Finding
from tuner.jsonedit import drop_comma, remove_member
from tuner.jsonscan import Document, Node, NotJson, parse

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

_STRICT = "Transformers, Accelerate and others read it with Python's json and refuse it; DeepSpeed's own loader does not"


def matches(filename: str, text: str) -> bool:
    """A JSON object with a key of DeepSpeed's, or a .json file that is named like one or is no JSON at all."""
    named_json = filename.lower().endswith(".json")
    try:
        root = parse(text).root
    except NotJson:
        return named_json
    if any(member.key in _SIGNS for member in root.members):
        return True
    return named_json and any(part in filename.lower() for part in _NAMES)


def lint(text: str, options: contract.Options) -> list[Finding]:
    """Every finding, in line order."""
    return [issue.finding for issue in _issues(text, read(options))]


def fix(text: str, options: contract.Options) -> str:
    """``text`` with the safe mends made, one after the other, each judged on what the one before left."""
    chosen = read(options)
    while (edit := next((issue.edit for issue in _issues(text, chosen) if issue.edit), None)) is not None:
        mended = edit(text)
        if mended == text:
            raise AssertionError("a mend changed nothing")
        text = mended
    return text


def _issues(text: str, options: Options) -> list[Issue]:
    try:
        document = parse(text)
    except NotJson as error:
        return [Issue(error.line, "", f"this is not JSON: {error.why}", "correct this line")]
    if document.root.kind != "object":
        return [Issue(1, "", "a DeepSpeed configuration is a JSON object, in braces", 'write it like {"aio": {…}}')]
    found = [
        *_syntax(document),
        *_duplicates(document),
        *block_rules.issues(document, options),
        *offload_rules.issues(document, options),
    ]
    return sorted(found, key=lambda issue: issue.line)


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
                "DeepSpeed refuses a file that holds a key twice",
                "remove this one, both say the same" if same else "remove one of the two",
                partial(_without, document, node, index) if same else None,
            )


def _without(document: Document, node: Node, index: int, _text: str) -> str:
    return remove_member(document, node, index)
