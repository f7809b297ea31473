"""Makes programs for ranks out of modules of ours that are not imported here: some need what only the ranks have (torch).

Below mpirun only rank 0 has a standard input, so that the modules go into the command itself.
"""

from __future__ import annotations

import base64
import importlib.util
import json
import zlib
from collections.abc import Sequence
from functools import cache
from pathlib import Path

# No single quote, and nothing that a shell or launcher takes for its own: it is packed before it is sent.
_BOOT = """\
import importlib.abc, importlib.util, runpy, sys
class Carried(importlib.abc.MetaPathFinder, importlib.abc.InspectLoader):
    def find_spec(self, name, path=None, target=None):
        if name in TEXTS:
            return importlib.util.spec_from_loader(name, self, origin=name, is_package=TEXTS[name] is None)
    def is_package(self, name):
        return TEXTS[name] is None
    def get_source(self, name):
        return TEXTS[name] or ""
    def get_code(self, name):
        return compile(TEXTS[name] or "", "<" + name + ">", "exec")
sys.meta_path.insert(0, Carried())
runpy.run_module(MAIN, run_name="__main__", alter_sys=True)
"""


@cache
def program(modules: Sequence[str]) -> str:
    """A text for ``python -c`` that runs the last of ``modules``; the others are imported when it asks for them.

    Packages that they are in are empty there.
    """
    packages = {name[:at] for name in modules for at, letter in enumerate(name) if letter == "."}
    texts: dict[str, str | None] = dict.fromkeys(sorted(packages))
    for name in modules:
        spec = importlib.util.find_spec(name)
        assert spec is not None
        assert spec.origin is not None
        texts[name] = Path(spec.origin).read_text(encoding="utf-8")
    whole = f"import json\nTEXTS=json.loads({json.dumps(json.dumps(texts))})\nMAIN={modules[-1]!r}\n{_BOOT}"
    packed = base64.b64encode(zlib.compress(whole.encode(), 9)).decode()
    return f'import zlib,base64;exec(compile(zlib.decompress(base64.b64decode("{packed}")),"sent","exec"))'


def command(python: str, modules: Sequence[str], *arguments: str) -> tuple[str, ...]:
    return (python, "-c", program(tuple(modules)), *arguments)
