"""Makes programs for hosts that need nothing of ours there: some modules as one text for ``python -c``."""

from __future__ import annotations

import base64
import zlib
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from types import ModuleType


@cache
def program(*modules: ModuleType) -> str:
    """A text that puts each module where the imports of the next one find it, and calls ``main`` of the last.

    Compressed, in letters that no shell and no launcher takes for its own.
    """
    lines = ["import sys,types"]
    for module in modules:
        assert module.__file__ is not None
        text = Path(module.__file__).read_text(encoding="utf-8")
        name = module.__name__
        lines.append(f"m=sys.modules[{name!r}]=types.ModuleType({name!r});exec(compile({text!r},{name!r},'exec'),m.__dict__)")
    packed = base64.b64encode(zlib.compress("\n".join([*lines, "m.main()", ""]).encode(), 9)).decode()
    return f'import zlib,base64;exec(compile(zlib.decompress(base64.b64decode("{packed}")),"sent","exec"))'


def command(python: str, modules: Sequence[ModuleType], *arguments: str) -> tuple[str, ...]:
    return (python, "-c", program(*modules), *arguments)
