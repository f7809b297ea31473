"""The one command that installs a system package on this distribution."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

_MANAGERS = {
    "debian": "sudo apt-get install -y",
    "fedora": "sudo dnf install -y",
    "suse": "sudo zypper install -y",
    "arch": "sudo pacman -S --noconfirm",
    "alpine": "sudo apk add",
    "conda": "conda install -y -c conda-forge",
}
_NAMES = {
    "libaio": {
        "debian": "libaio-dev",
        "fedora": "libaio-devel",
        "suse": "libaio-devel",
        "arch": "libaio",
        "alpine": "libaio-dev",
        "conda": "libaio",
    },
    "compiler": {
        "debian": "g++",
        "fedora": "gcc-c++",
        "suse": "gcc-c++",
        "arch": "gcc",
        "alpine": "g++",
        "conda": "gxx",
    },
}
_FAMILIES = {
    "debian": "debian",
    "ubuntu": "debian",
    "fedora": "fedora",
    "rhel": "fedora",
    "centos": "fedora",
    "amzn": "fedora",
    "suse": "suse",
    "opensuse": "suse",
    "sles": "suse",
    "arch": "arch",
    "alpine": "alpine",
}


def family(root: Path = Path("/")) -> str | None:
    """debian, fedora, suse, arch or alpine, from /etc/os-release; None when it is none of them."""
    try:
        text = (root / "etc/os-release").read_text(errors="replace")
    except OSError:
        return None
    fields = dict(re.findall(r"^(ID|ID_LIKE)=[\"']?([^\"'\n]*)", text, re.MULTILINE))
    words = f"{fields.get('ID', '')} {fields.get('ID_LIKE', '')}".lower().split()
    return next((_FAMILIES[word.split("-")[0]] for word in words if word.split("-")[0] in _FAMILIES), None)


def install(what: str, root: Path = Path("/"), environ: Mapping[str, str] = os.environ) -> str:
    """The command that installs ``what`` ("libaio", "compiler", or the name of a package that is the same everywhere)."""
    kind = "conda" if environ.get("CONDA_PREFIX") and what in _NAMES else family(root)
    if kind is None:
        return f"install {_NAMES.get(what, {}).get('debian', what)} with your package manager"
    return f"{_MANAGERS[kind]} {_NAMES.get(what, {}).get(kind, what)}"
