"""Runs modules of ours on a host whose Python has none of them: they are sent as text, and imported from memory there.

The program's standard input begins with one line that holds the modules; what follows is the program's own.
"""

from __future__ import annotations

import ast
import base64
import importlib.util
import json
import sys
import zlib
from collections.abc import Iterator, Sequence
from functools import cache
from importlib.abc import InspectLoader
from pathlib import Path
from types import ModuleType

OLDEST = (3, 10)  # of Python: ours is written for it
OLDEST_SHOWN = ".".join(map(str, OLDEST))
_OURS = ("runners", "spaces")
# First in sys.meta_path: the folder that the program starts in may hold other modules of our names.
_BOOT = (
    f"""\
import sys
if sys.version_info < {OLDEST}:
    sys.exit("ImportError: this is Python %d.%d and {OLDEST_SHOWN} or newer is needed" % sys.version_info[:2])
"""
    + """\
import base64, importlib.abc, importlib.util, json, runpy, zlib
LINE = sys.stdin.buffer.readline()
TEXTS = json.loads(zlib.decompress(base64.b64decode(LINE)).decode())
class Carried(importlib.abc.MetaPathFinder, importlib.abc.InspectLoader):
    carried = LINE
    def find_spec(self, name, path=None, target=None):
        if name in TEXTS:
            return importlib.util.spec_from_loader(name, self, is_package=TEXTS[name][1])
    def is_package(self, name):
        return TEXTS[name][1]
    def get_source(self, name):
        if name not in TEXTS:
            raise ImportError(name)
        return TEXTS[name][0]
    def get_code(self, name):
        return compile(TEXTS[name][0], "<" + name + ">", "exec")
sys.meta_path.insert(0, Carried())
runpy.run_module(sys.argv[1], run_name="__main__", alter_sys=True)
"""
)


def argv(python: str, module: str) -> tuple[str, ...]:
    """The program that runs ``module`` as its main one; say ``texts`` to it first, as a line."""
    return (python, "-c", _BOOT, module)


@cache
def texts(modules: Sequence[str]) -> str:
    """``modules`` and the packages that they are in, as one line."""
    names = {name.rpartition(".")[0] for name in modules}
    packages = {".".join(parts[: depth + 1]) for parts in (name.split(".") for name in names) for depth in range(len(parts))}
    found = {}
    for name in sorted({*modules, *packages} - {""}):
        file = _file(name)
        assert file is not None, name
        found[name] = (file.read_text(encoding="utf-8"), file.name == "__init__.py")
    return base64.b64encode(zlib.compress(json.dumps(found).encode(), 9)).decode()


@cache
def needed(modules: Sequence[str]) -> tuple[str, ...]:
    """``modules`` and all of ours that they import, at their start or later, by their text: none of them is imported here."""
    found: set[str] = set()
    waiting = list(modules)
    while waiting:
        name = waiting.pop()
        file = _file(name) if name.partition(".")[0] in _OURS and name not in found else None
        if file is not None:
            found.add(name)
            package = name if file.name == "__init__.py" else name.rpartition(".")[0]
            waiting += [package, *_imported(file)]
    return tuple(sorted(found))


def _imported(file: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module
            yield from (f"{node.module}.{each.name}" for each in node.names)


def _file(name: str) -> Path | None:
    """Where a module's text is, None where there is no such module. Imports the packages that it is in."""
    try:
        spec = importlib.util.find_spec(name)
    except (ModuleNotFoundError, ValueError):
        return None
    return Path(spec.origin) if spec is not None and spec.origin and spec.has_location else None


def source_of(module: ModuleType) -> str:
    """A module's text, also where it was itself carried here."""
    spec = module.__spec__
    text = spec.loader.get_source(module.__name__) if spec is not None and isinstance(spec.loader, InspectLoader) else None
    assert text is not None, module
    return text


def own_line() -> bytes | None:
    """The line by which the modules of this process were carried to it; None where they come from files."""
    carried = (getattr(finder, "carried", None) for finder in sys.meta_path)
    return next((line for line in carried if isinstance(line, bytes)), None)
