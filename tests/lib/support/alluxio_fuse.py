"""A stand-in for Alluxio's FUSE process: reads the emitted alluxio-site.properties and mounts rclone with like settings.

The site file is its only input. Where Alluxio would trip over a value it ends with an error, and where Alluxio takes in
silence what can't be meant (a key that the version doesn't have, a misspelt one) it does too. It reads properties by code
of its own, not by the product's. Command lines are those of Alluxio's own scripts, in the foreground and background.
"""

from __future__ import annotations

import http.server
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

from runners.process import die_with

CLASS = "alluxio.fuse.AlluxioFuse"
P = "alluxio.user.position.reader.streaming."
_SIZE = re.compile(r"([0-9]+)(b|kb?|mb?|gb?|tb?)?", re.IGNORECASE)
_UNITS = {"": 0, "b": 0, "k": 10, "m": 20, "g": 30, "t": 40}
_MOUNT_OPTIONS = re.compile(
    r"big_writes|allow_other|ro|direct_io|kernel_cache|auto_cache|(?:attr|entry)_timeout=\d+|max_background=\d+|max_read=\d+"
)
# What each product line reads of the keys that are tuned, and how.
KEYS: dict[str, dict[str, str]] = {
    "enterprise": {
        P + "async.prefetch.enable": "bool",
        P + "async.prefetch.thread": "int",
        P + "async.prefetch.part.length": "size",
        P + "async.prefetch.max.part.number": "int",
        P + "async.prefetch.file.length.threshold": "size",
        P + "slow.async.prefetch.thread": "int",
        P + "slow.async.prefetch.part.length": "size",
        P + "async.prefetch.by.file.enabled": "bool",
        P + "async.prefetch.shared.cache.enabled": "bool",
        "alluxio.user.position.reader.preload.data.enabled": "bool",
    },
    "open3": {P + "multiplier": "int", "alluxio.user.position.reader.preload.data.enabled": "bool"},
    "open2": {
        "alluxio.user.streaming.reader.chunk.size.bytes": "size",
        "alluxio.user.streaming.reader.buffer.size.messages": "int",
    },
}
_ALL = {
    "alluxio.fuse.mount.options": "text",
    "alluxio.fuse.web.enabled": "bool",
    "alluxio.fuse.web.port": "int",
    "alluxio.user.metadata.cache.expiration.time": "text",
}


class Trips(Exception):
    """What Alluxio would end with, or would not notice."""


def make_home(folder: Path, line: str, version: str, config: Path, remote: str) -> Path:
    """An $ALLUXIO_HOME whose alluxio-fuse mounts ``remote`` of rclone's ``config``."""
    script = folder / ("integration" if line == "open2" else "dora/integration") / "fuse/bin/alluxio-fuse"
    for made in (script.parent, folder / "conf", folder / "libexec", folder / "logs", folder / "bin"):
        made.mkdir(parents=True, exist_ok=True)
    (folder / "libexec/alluxio-config.sh").write_text(f"VERSION={version}\n")
    lib = str(Path(__file__).parents[1])
    for path, function, more in (
        (script, "script", f", {line!r}"),
        (folder / "bin/java", "fuse", f", {line!r}, {str(config)!r}, {remote!r}"),
    ):
        path.write_text(
            f"#!{sys.executable}\nimport sys\nsys.path.insert(0, {lib!r})\nfrom support.alluxio_fuse import {function}\n"
            f"sys.exit({function}(sys.argv[1:], {str(folder)!r}{more}))\n"
        )
        path.chmod(0o755)
    return folder


# -- the script --------------------------------------------------------------------------------------------------------------


def script(words: list[str], home: str, line: str) -> int:
    """alluxio-fuse mount and unmount, as the scripts of 2.x and open source 3.x take their words."""
    command, *rest = words
    if command in ("umount", "unmount"):
        return _unmount(rest[-1])
    foreground, options, jvm, places = False, [], os.environ.get("ALLUXIO_FUSE_JAVA_OPTS", "").split(), []
    while rest:
        word = rest.pop(0)
        if word == "-o":
            options += [rest.pop(0)]
        elif word == ("-n" if line == "open2" else "-f"):
            foreground = True
        elif word.startswith(("-X", "-D")) and line != "open2":
            jvm.append(word)
        elif word.startswith("-"):
            print(f"unknown option {word}")
            return 1
        else:
            places.append(word)
    java = [sys.executable, f"{home}/bin/java", *jvm, CLASS]
    if line == "open2":
        point, root = places[0], places[1] if len(places) > 1 else "/"
        java += ["-o", ",".join(["big_writes", *options]), "-m", point, "-r", root]
    else:
        source, point = places
        java += ["-m", point, "-u", source, *(word for each in options for word in ("-o", each))]
    if foreground:
        os.execv(java[0], java)
    with Path(f"{home}/logs/fuse.out").open("wb") as log:
        process = subprocess.Popen(java, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    for _ in range(400):
        if _mounted(point):
            return 0
        if process.poll() is not None:
            print(f"Failed to mount, see {home}/logs/fuse.out")
            return 1
        time.sleep(0.05)
    return 1


def _unmount(point: str) -> int:
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with suppress(OSError):
                words = (folder / "cmdline").read_bytes().decode(errors="replace").split("\0")
                if CLASS in words and point in words:
                    os.kill(int(folder.name), signal.SIGTERM)
    for _ in range(100):
        if not _mounted(point):
            return 0
        time.sleep(0.05)
    print(f"Failed to umount {point}")
    return 1


def _mounted(point: str) -> bool:
    return any(line.split()[4] == point for line in Path("/proc/self/mountinfo").read_text().splitlines())


# -- the FUSE process --------------------------------------------------------------------------------------------------------


def fuse(words: list[str], home: str, line: str, config: str, remote: str) -> int:
    """Mounts as the site file says, and stays until it is told to end."""
    place = words.index(CLASS)
    jvm, rest = words[:place], words[place + 1 :]
    pairs = list(zip(rest[::2], rest[1::2], strict=True))
    point = next(value for name, value in pairs if name == "-m")
    given = [each for name, value in pairs if name == "-o" for each in value.split(",")]
    try:
        site = read(site_file(home), line)
        flags = settings(site, line, given, memory(jvm))
    except Trips as error:
        print(f"alluxio-fuse: {error}", flush=True)
        return 1
    socket = f"{home}/logs/{os.getpid()}.sock"
    argv = [shutil.which("rclone") or f"{Path(sys.executable).parent}/rclone", "mount", remote, point, "--config", config,
            "--read-only", "--vfs-cache-mode=off", "--dir-cache-time=1h", "--buffer-size=0", "--rc", f"--rc-addr=unix://{socket}",
            "--rc-no-auth", *flags]  # fmt: skip
    child = subprocess.Popen(argv, stdin=subprocess.DEVNULL, preexec_fn=die_with(os.getpid()))
    signal.signal(signal.SIGTERM, lambda *_: child.terminate())
    if site.get("alluxio.fuse.web.enabled") == "true":
        _serve(int(site.get("alluxio.fuse.web.port", "49999")), Path(socket))
    try:
        return child.wait()
    finally:
        with suppress(OSError):
            Path(socket).unlink()


def site_file(home: str) -> Path:
    folders = (os.environ.get("ALLUXIO_CONF_DIR") or f"{home}/conf", f"{os.environ.get('HOME', '/')}/.alluxio", "/etc/alluxio")
    return next((path for path in (Path(f) / "alluxio-site.properties" for f in folders) if path.is_file()), Path(os.devnull))


def read(path: Path, line: str) -> dict[str, str]:
    """The keys of the site file that bear on the client, checked."""
    known = {**KEYS[line], **_ALL}
    found: dict[str, str] = {}
    for key, value in properties(path.read_bytes().decode("iso-8859-1")):
        key, value = key.strip(), value.strip()
        if key in known:
            _check(key, known[key], value)
            found[key] = value
        elif key.startswith(("alluxio.user.", "alluxio.fuse.")):
            raise Trips(f"{key} is no key of this version")
        elif key == "alluxio.conf.dir":
            raise Trips(f"{key} is not accepted in site properties")
    return found


def _check(key: str, kind: str, value: str) -> None:
    if kind == "bool" and value not in ("true", "false"):
        raise Trips(f"{key}={value} means false")
    if kind == "int" and not re.fullmatch(r"[0-9]{1,10}", value):
        raise Trips(f"{key}={value}: class java.lang.String cannot be cast to class java.lang.Integer")
    if kind == "size" and not _SIZE.fullmatch(value):
        raise Trips(f"{key}={value}: fail to parse as size")


def properties(text: str) -> list[tuple[str, str]]:
    """Pairs as java.util.Properties has them, by the description in its documentation and not by its code."""
    lines: list[str] = []
    joining = False
    for natural in re.split(r"\r\n|\r|\n", text):
        stripped = natural.lstrip(" \t\f")
        if not joining and (not stripped or stripped[0] in "#!"):
            continue
        backslashes = len(stripped) - len(stripped.rstrip("\\"))
        goes_on = backslashes % 2 == 1
        body = stripped[:-1] if goes_on else stripped
        if joining:
            lines[-1] += body
        else:
            lines.append(body)
        joining = goes_on
    pairs = []
    for each in lines:
        match = re.match(r"(?P<key>(?:\\.|[^\\=: \t\f])*)[ \t\f]*[=:]?[ \t\f]*(?P<value>.*)", each, re.DOTALL)
        assert match is not None
        pairs.append((_plain(match["key"]), _plain(match["value"])))
    return pairs


def _plain(text: str) -> str:
    short = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}

    def one(match: re.Match[str]) -> str:
        return chr(int(match[1], 16)) if match[1] else short.get(match[2], match[2])

    return re.sub(r"\\(?:u([0-9a-fA-F]{4})|(.))", one, text, flags=re.DOTALL)


def size(text: str) -> int:
    match = _SIZE.fullmatch(text)
    assert match is not None
    return int(match[1]) << _UNITS[(match[2] or "")[:1].lower()]


def memory(jvm: list[str]) -> int:
    """Direct memory of the JVM; the last option counts, and the scripts' own is 4g."""
    found = [word.partition("=")[2] for word in jvm if word.startswith("-XX:MaxDirectMemorySize=")]
    return size(found[-1]) if found else 4 << 30


def settings(site: dict[str, str], line: str, given: list[str], direct: int) -> list[str]:
    """rclone's flags for what the site file and -o say."""
    if line == "enterprise":
        part = size(site.get(P + "async.prefetch.part.length", "4MB"))
        parts = int(site.get(P + "async.prefetch.max.part.number", "8"))
        threads = int(site.get(P + "async.prefetch.thread", "64"))
        if site.get(P + "async.prefetch.enable") == "false":
            part, parts = 128 << 10, 1
        if part * parts > direct:
            raise Trips(f"OutOfDirectMemoryError: failed to allocate {part * parts} byte(s) of direct memory")
        streams = min(parts, threads)
    elif line == "open3":
        part, streams = 256 << 10, max(1, int(site.get(P + "multiplier", "16")) // 2)
    else:
        part = size(site.get("alluxio.user.streaming.reader.chunk.size.bytes", "1MB"))
        streams = max(1, int(site.get("alluxio.user.streaming.reader.buffer.size.messages", "16")) // 4)
    flags = [
        f"--vfs-read-chunk-size={part}B",
        f"--vfs-read-chunk-size-limit={part}B",
        f"--vfs-read-chunk-streams={streams if streams > 1 else 0}",
    ]
    own = [each.strip() for each in site.get("alluxio.fuse.mount.options", "attr_timeout=600,entry_timeout=600").split(",")]
    for option in [each for each in given if each != "big_writes" and "." not in each.partition("=")[0]] or own:
        if option and not _MOUNT_OPTIONS.fullmatch(option):
            raise Trips(f"fuse: unknown option {option}")
        if option == "direct_io":
            flags.append("--direct-io")
        elif option.startswith("attr_timeout="):
            flags.append(f"--attr-timeout={option.partition('=')[2]}s")
    return flags


def _serve(port: int, socket: Path) -> None:
    """The FUSE process's metrics: bytes that came from outside."""
    from runners.rclone.rc import call

    class Page(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            try:
                body = f"# HELP x\nClient_BytesReadRemote_total {call(socket, 'core/stats')['bytes']}.0\n".encode()
            except OSError:
                self.send_error(503)
                return
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *arguments: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", port), Page)
    threading.Thread(target=server.serve_forever, daemon=True).start()
