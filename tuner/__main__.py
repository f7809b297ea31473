"""`tune`, also as `python -m tuner`."""

from __future__ import annotations

import sys


def main() -> None:
    from tuner.cli.app import run

    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()
