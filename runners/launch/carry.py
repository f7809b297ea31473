"""Runs modules of ours on a host whose Python has none of them: they are sent as text, and imported from memory there.

The program's standard input begins with one line that holds the modules; what follows is the program's own.
"""

from __future__ import annotations

import base64
import importlib
import json
import zlib
from collections.abc import Sequence
from functools import cache
from pathlib import Path

OLDEST = (3, 10)  # of Python: ours is written for it
OLDEST_SHOWN = ".".join(map(str, OLDEST))
# First in sys.meta_path: the folder that the program starts in may hold other modules of our names.
_BOOT = (
    f"""\
import sys
if sys.version_info < {OLDEST}:
    sys.exit("ImportError: this is Python %d.%d and {OLDEST_SHOWN} or newer is needed" % sys.version_info[:2])
"""
    + """\
import base64, importlib.abc, importlib.util, json, runpy, zlib
TEXTS = json.loads(zlib.decompress(base64.b64decode(sys.stdin.buffer.readline())).decode())
class Carried(importlib.abc.MetaPathFinder, importlib.abc.InspectLoader):
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
    for name in sorted({*modules, *packages}):
        file = importlib.import_module(name).__file__
        assert file is not None
        found[name] = (Path(file).read_text(encoding="utf-8"), Path(file).name == "__init__.py")
    return base64.b64encode(zlib.compress(json.dumps(found).encode(), 9)).decode()
