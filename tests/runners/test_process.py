import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from runners.process import Completed, descendants, run
from runners.runner import Failure

pytestmark = pytest.mark.system


def python(code: str, *arguments: object) -> list[str]:
    return [sys.executable, "-c", code, *map(str, arguments)]


def gone(pid: int, within: float = 5.0) -> bool:
    deadline = time.monotonic() + within
    while time.monotonic() < deadline:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except (FileNotFoundError, ProcessLookupError):
            return True
        if state == "Z":  # dead, and its new parent has not looked yet
            return True
        time.sleep(0.01)
    return False


def pid_from(path: Path, within: float = 10.0) -> int:
    deadline = time.monotonic() + within
    while time.monotonic() < deadline:
        if path.exists() and path.read_text().strip():
            return int(path.read_text())
        time.sleep(0.01)
    raise AssertionError(f"{path} was never written")


def test_output_and_status_come_back() -> None:
    done = run(python("import sys; print('out'); print('err', file=sys.stderr); sys.exit(3)"), limit=30)
    assert isinstance(done, Completed)
    assert (done.returncode, done.stdout, done.stderr) == (3, "out\n", "err\n")


def test_arguments_environment_and_folder_are_handed_over(tmp_path: Path) -> None:
    folder = tmp_path / "a b é"
    folder.mkdir()
    code = "import os, sys; print(sys.argv[1:], os.environ['X'], os.getcwd())"
    done = run(python(code, "-x", "$HOME; ls", ""), limit=30, env={"X": "y z"}, cwd=folder)
    assert isinstance(done, Completed)
    assert done.stdout == f"['-x', '$HOME; ls', ''] y z {folder}\n"


def test_it_is_stopped_when_there_is_enough(tmp_path: Path) -> None:
    note = tmp_path / "pid"
    code = "import os, sys, time; open(sys.argv[1], 'w').write(str(os.getpid())); time.sleep(60)"
    begun = time.monotonic()
    stopped = run(python(code, note), limit=50, grace=0.0, enough=lambda: note.exists() and note.read_text() != "")
    assert isinstance(stopped, Failure)
    assert stopped.kind == "timeout"
    assert time.monotonic() - begun < 30
    assert gone(pid_from(note))
    done = run(python("import time; time.sleep(1.2); print('out')"), limit=50, enough=lambda: False)
    assert isinstance(done, Completed)
    assert done.stdout == "out\n"


def test_a_program_that_is_not_there() -> None:
    failed = run(["no-such-program-here"], limit=5)
    assert isinstance(failed, Failure)
    assert failed.kind == "environment"
    assert "no-such-program-here" in failed.reason


def test_nothing_waits_on_our_standard_input() -> None:
    done = run(python("import sys; print(repr(sys.stdin.read()))"), limit=30)
    assert isinstance(done, Completed)
    assert done.stdout == "''\n"


def test_output_beyond_the_bound_keeps_its_end() -> None:
    done = run(python("print('a' * 5_000_000 + 'end')"), limit=30, capture=1000)
    assert isinstance(done, Completed)
    assert len(done.stdout) == 1000
    assert done.stdout.endswith("aend\n")


def test_a_hang_is_stopped_with_all_that_it_started(tmp_path: Path) -> None:
    code = (
        "import subprocess, sys, time, pathlib, os\n"
        "a = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        "b = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'], start_new_session=True)\n"
        "pathlib.Path(sys.argv[1]).write_text(f'{os.getpid()} {a.pid} {b.pid}')\n"
        "print('started', flush=True)\n"
        "time.sleep(600)\n"
    )
    began = time.monotonic()
    failed = run(python(code, tmp_path / "pids"), limit=1.5, grace=0.5)
    assert isinstance(failed, Failure)
    assert failed.kind == "timeout"
    assert time.monotonic() - began < 5
    assert "started" in failed.log
    assert all(gone(int(pid)) for pid in (tmp_path / "pids").read_text().split())


def test_a_program_that_ignores_the_polite_signal(tmp_path: Path) -> None:
    code = (
        "import signal, sys, time, pathlib, os\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "pathlib.Path(sys.argv[1]).write_text(str(os.getpid()))\n"
        "time.sleep(600)\n"
    )
    failed = run(python(code, tmp_path / "pid"), limit=1.0, grace=0.3)
    assert isinstance(failed, Failure)
    assert failed.kind == "timeout"
    assert gone(pid_from(tmp_path / "pid"))


def test_a_program_gets_the_time_to_tidy_up(tmp_path: Path) -> None:
    code = (
        "import signal, sys, time, pathlib\n"
        "def bye(*_):\n"
        "    time.sleep(0.2)\n"
        "    pathlib.Path(sys.argv[1]).write_text('1')\n"
        "    sys.exit(0)\n"
        "signal.signal(signal.SIGTERM, bye)\n"
        "time.sleep(600)\n"
    )
    failed = run(python(code, tmp_path / "tidied"), limit=1.0, grace=10)
    assert isinstance(failed, Failure)
    assert (tmp_path / "tidied").exists()


def test_what_a_finished_program_left_running_is_ended(tmp_path: Path) -> None:
    code = (
        "import subprocess, sys, pathlib\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        "pathlib.Path(sys.argv[1]).write_text(str(child.pid))\n"
        "print('done')\n"
    )
    began = time.monotonic()
    done = run(python(code, tmp_path / "pid"), limit=60)
    assert isinstance(done, Completed)
    assert done.stdout == "done\n"
    assert time.monotonic() - began < 10
    assert gone(pid_from(tmp_path / "pid"))


def test_a_signal_is_a_crash() -> None:
    failed = run(python("import os, sys; print('last words', file=sys.stderr, flush=True); os.abort()"), limit=30)
    assert isinstance(failed, Failure)
    assert failed.kind == "crash"
    assert "SIGABRT" in failed.reason
    assert "last words" in failed.log


def test_the_program_dies_with_us(tmp_path: Path) -> None:
    inner = "import os, sys, time, pathlib; pathlib.Path(sys.argv[1]).write_text(str(os.getpid())); time.sleep(600)"
    outer = "import sys\nfrom runners.process import run\nrun([sys.executable, '-c', sys.argv[1], sys.argv[2]], limit=600)\n"
    root = Path(__file__).parents[2]
    parent = subprocess.Popen(python(outer, inner, tmp_path / "pid"), cwd=root)
    pid = pid_from(tmp_path / "pid")
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    assert gone(pid)


def test_an_interruption_leaves_nothing(tmp_path: Path) -> None:
    inner = "import os, sys, time, pathlib; pathlib.Path(sys.argv[1]).write_text(str(os.getpid())); time.sleep(600)"
    outer = (
        "import sys\n"
        "from runners.process import run\n"
        "try:\n"
        "    run([sys.executable, '-c', sys.argv[1], sys.argv[2]], limit=600)\n"
        "except KeyboardInterrupt:\n"
        "    sys.exit(7)\n"
    )
    parent = subprocess.Popen(python(outer, inner, tmp_path / "pid"), cwd=Path(__file__).parents[2])
    pid = pid_from(tmp_path / "pid")
    parent.send_signal(signal.SIGINT)
    assert parent.wait(20) == 7
    assert gone(pid)


def test_descendants_of_a_process() -> None:
    with subprocess.Popen(python("import time; time.sleep(600)")) as child:
        try:
            assert child.pid in descendants(os.getpid())
            assert descendants(child.pid) == []
        finally:
            child.kill()
