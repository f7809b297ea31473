"""`tune`, also as `python -m tuner`."""

from __future__ import annotations

import sys


def main() -> None:
    """The command. Signals are taken over first: loading the rest takes long enough for a user to press Ctrl-C."""
    from tuner.cli import signals

    signals.install()
    try:
        from tuner.cli.app import run

        code = run(sys.argv[1:])
    except KeyboardInterrupt:
        sys.stderr.write("tune: stopped before anything was measured\n")
        code = 130
    signals.finish()
    sys.exit(code)


if __name__ == "__main__":
    main()
