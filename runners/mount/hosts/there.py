"""The program on a client host: it has the runner of this one host, and measures when all hosts are ready.

It is sent to the host as text (runners.launch.carry): nothing of ours has to be there. A line of JSON is asked, one is
answered.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any, cast

from runners.launch.marks import MARK
from runners.mount.hosts.watchman import Watchman
from runners.mount.runner import MountRunner
from runners.runner import EnvironmentProblem, Failure, UsageError

Answer = dict[str, Any]


class LeftOut(Exception):
    """Another host could not mount: nobody reads."""


def made(target: str, options: Mapping[str, Any]) -> MountRunner:
    """The runner of this host. Raises UsageError."""
    package = importlib.import_module(f"runners.{target}")
    space = importlib.import_module(f"spaces.{target}").SPACE
    return cast(MountRunner, package.create(package.OPTIONS(**options), space))


class There:
    """``wait`` gives the next request, for the moment between mounting and reading."""

    def __init__(self, wait: Callable[[], Mapping[str, Any]], say: Callable[[Answer], None]) -> None:
        self._wait, self._say = wait, say
        self._runner: MountRunner | None = None
        self._watchman: Watchman | None = None

    def answer(self, request: Mapping[str, Any]) -> Answer:
        try:
            return cast(Answer, getattr(self, f"_{request['do']}")(request))
        except UsageError as error:
            return {"usage": {"option": error.option, "value": str(error.value), "why": error.why}}
        except EnvironmentProblem as problem:
            return {"failure": {"kind": "environment", "reason": problem.message, "said": "", "mend": problem.mend}}

    @property
    def runner(self) -> MountRunner:
        assert self._runner is not None, "create comes first"
        return self._runner

    def _doctor(self, request: Mapping[str, Any]) -> Answer:
        package = importlib.import_module(f"runners.{request['target']}")
        return {"problems": [asdict(each) for each in package.doctor(package.OPTIONS(**request["options"]))]}

    def _create(self, request: Mapping[str, Any]) -> Answer:
        """Also starts who puts this host right should this program be killed."""
        self._runner = made(request["target"], request["options"])
        self._runner.before_reading = self._meet
        known = self._known()
        alone = [_identity(path) for path in self._runner.backend.changes()]
        self._watchman = Watchman.start(request["target"], request["options"])
        return {"alone": alone, "watchman": self._watchman.mark, **known}

    def _mark(self, request: Mapping[str, Any]) -> Answer:
        """Leaves a sign beside a file of the user's, for other hosts to look for."""
        try:
            _sign(request).touch()
        except OSError:
            return {"marked": False}
        return {"marked": True}

    def _seen(self, request: Mapping[str, Any]) -> Answer:
        return {"seen": _sign(request).exists()}

    def _unmark(self, request: Mapping[str, Any]) -> Answer:
        _sign(request).unlink(missing_ok=True)
        return {"marked": False}

    def _check(self, _request: Mapping[str, Any]) -> Answer:
        problems = [asdict(each) for each in self.runner.check()]
        return {"problems": problems, **self._known()}

    def _prepare(self, _request: Mapping[str, Any]) -> Answer:
        self.runner.prepare()
        return self._known()

    def _known(self) -> Answer:
        reader = self.runner.reader
        able = asdict(reader.able()) if reader is not None else None
        return {"facts": dict(self.runner.facts()), "limits": asdict(self.runner.limits()), "able": able}

    def _measure(self, request: Mapping[str, Any]) -> Answer:
        """Answers twice: once it is mounted, and when all is over. Asked to ``leave`` in between, it reads nothing."""
        try:
            outcome = self.runner.measure(request["config"], float(request["limit"]))
        except LeftOut:
            return {"left": True}
        return {"outcome": asdict(outcome), "failed": isinstance(outcome, Failure)}

    def _meet(self) -> None:
        self._say({"mounted": True})
        if self._wait()["do"] != "read":
            raise LeftOut

    def _close(self, _request: Mapping[str, Any]) -> Answer:
        runner, self._runner = self._runner, None
        if runner is not None:
            runner.close()
        watchman, self._watchman = self._watchman, None
        if watchman is not None:
            watchman.dismiss()
        return {"closed": True}


def _system() -> str:
    """What two names of one machine have in common: its boot, and its network, which name spaces have of their own."""
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return f"{boot} {os.readlink('/proc/self/ns/net')}"  # noqa: PTH115  no path: a name of the kernel's


def _sign(request: Mapping[str, Any]) -> Path:
    return Path(request["path"]).with_name(f".clustertune-{request['token']}")


def _identity(path: Path) -> list[Any]:
    """By which hosts see that they have the same file, if it is one."""
    try:
        status = path.stat()
    except OSError:
        return [str(path)]
    return [str(path), status.st_ino, status.st_mtime_ns, status.st_size]


def main() -> None:
    """Libraries print to standard output; the answers go elsewhere, so that nothing can garble them."""
    # What is started here to stay, like a mount of the user's, is not this job's.
    os.environ.pop(MARK, None)
    answers = os.dup(1)
    os.dup2(2, 1)
    # The watchman does what is left to do: programs started on the way out would be ended with this one.
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(number, lambda *_: os._exit(143))

    def say(told: Answer) -> None:
        data = json.dumps(told).encode() + b"\n"
        while data:
            data = data[os.write(answers, data) :]

    lines = _lines()
    there = There(lambda: cast("dict[str, Any]", json.loads(next(lines, b'{"do": "leave"}'))), say)
    say({"python": sys.executable, "system": _system()})
    for line in lines:
        say(there.answer(json.loads(line)))
    with suppress(EnvironmentProblem):
        there.answer({"do": "close"})
    sys.stderr.flush()
    os._exit(0)


def _lines() -> Iterator[bytes]:
    while line := sys.stdin.buffer.readline():
        if line.strip():
            yield line


if __name__ == "__main__":
    main()
