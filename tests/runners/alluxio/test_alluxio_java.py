"""Our reading of properties files against Java's own java.util.Properties, and the stand-in's against both."""

from __future__ import annotations

import random
import shutil
import subprocess
from pathlib import Path

import pytest
from support import alluxio_fuse

from runners.alluxio.properties import entries, written
from runners.alluxio.site import merged
from tuner.exporters import alluxio

pytestmark = pytest.mark.system
DATA = Path(__file__).parents[2] / "data/alluxio"
# Prints, for each file, each pair in hexadecimal, sorted by key: no byte of a value can be taken for anything else.
SOURCE = """\
import java.io.*; import java.nio.charset.StandardCharsets; import java.util.*;
public class P {
  static String hex(String s) {
    StringBuilder b = new StringBuilder();
    for (char c : s.toCharArray()) b.append(String.format("%04x", (int) c));
    return b.toString();
  }
  public static void main(String[] files) throws Exception {
    for (String file : files) {
      Properties p = new Properties();
      System.out.println("file");
      try (InputStream in = new FileInputStream(file)) { p.load(in); }
      catch (IllegalArgumentException e) { System.out.println("broken"); continue; }
      for (String key : new TreeSet<>(p.stringPropertyNames())) System.out.println(hex(key) + " " + hex(p.getProperty(key)));
    }
  }
}
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if shutil.which("javac") is None and shutil.which("java") is None:
        pytest.skip("there is no Java here")
    source = tmp_path_factory.mktemp("java") / "P.java"
    source.write_text(SOURCE)
    return source


def by_java(program: Path, folder: Path, texts: list[str]) -> list[dict[str, str] | None]:
    """What Java reads from each text; None where it refuses the file."""
    files = []
    for number, text in enumerate(texts):
        path = folder / f"{number}.properties"
        path.write_bytes(text.encode("iso-8859-1"))
        files.append(str(path))
    done = subprocess.run(["java", str(program), *files], capture_output=True, text=True, check=True, timeout=120)
    found: list[dict[str, str] | None] = []
    for block in done.stdout.split("file\n")[1:]:
        if block.startswith("broken"):
            found.append(None)
            continue
        pairs = (line.split(" ") for line in block.splitlines())
        found.append(_said({_text(key): _text(value) for key, value in pairs}))
    return found


def _said(pairs: dict[str, str]) -> dict[str, str]:
    """Without an empty key: Java sees one in a lone backslash at the very end of a file, which we leave out."""
    return {key: value for key, value in pairs.items() if key}


def _text(hexadecimal: str) -> str:
    return bytes.fromhex(hexadecimal).decode("utf-16-be", "surrogatepass")


def by_us(text: str) -> dict[str, str] | None:
    found = entries(text)
    return None if any(entry.broken for entry in found) else _said({e.key: e.value for e in found})


def test_java_and_we_read_the_same(program: Path, tmp_path: Path) -> None:
    rng = random.Random(4711)
    letters = "ab=: \t\f\\\n\r#!u0041é\x85\xa0.,"
    texts = ["".join(rng.choice(letters) for _ in range(rng.randrange(60))) for _ in range(1500)]
    texts += [path.read_bytes().decode("iso-8859-1") for path in sorted(DATA.glob("*.properties"))]
    for text, java in zip(texts, by_java(program, tmp_path, texts), strict=True):
        assert by_us(text) == java, repr(text)


def test_java_reads_what_we_write(program: Path, tmp_path: Path) -> None:
    rng = random.Random(42)
    alphabet = [*map(chr, range(0x250)), "\u20ac", "\U0001f600", "\\", "=", " ", "#"]
    pairs = [("".join(rng.choices(alphabet, k=rng.randrange(1, 9))), "".join(rng.choices(alphabet, k=rng.randrange(9))))
             for _ in range(500)]  # fmt: skip
    texts = [written(key, value) + "\n" for key, value in pairs]
    for (key, value), java in zip(pairs, by_java(program, tmp_path, texts), strict=True):
        assert java == {key: value}


def test_java_reads_a_merged_file_as_the_users_with_ours_over_it(program: Path, tmp_path: Path) -> None:
    rng = random.Random(7)
    users = ["".join(rng.choices("ab=: \t\\\n\r#!.", k=rng.randrange(60))) for _ in range(400)]
    ours = {"alluxio.fuse.mount.options": "direct_io,max_read=131072", "alluxio.user.file.buffer.bytes": "4MB"}
    merges = [merged(text, ours, ["a study"]) for text in users]
    before, after = by_java(program, tmp_path, users), by_java(program, tmp_path, merges)
    for text, was, now in zip(users, before, after, strict=True):
        assert was is None or now == {**was, **ours}, repr(text)


def test_a_linted_and_mended_file_means_to_java_what_was_meant(program: Path, tmp_path: Path) -> None:
    text = (DATA / "site-bad.properties").read_bytes().decode("iso-8859-1")
    (java,) = by_java(program, tmp_path, [alluxio.fix(text, {"alluxio_version": "3.1"})])
    prefetch = "alluxio.user.position.reader.streaming.async.prefetch."
    assert java == {
        prefetch + "thread": "64",
        prefetch + "part.length": "4MB",
        prefetch + "max.part.number": "8",
        "alluxio.user.metrics.collection.enabled": "true",
        "alluxio.user.file.buffer.bytes": "9999999999GB",  # only its author knows what was meant
        "alluxio.user.streaming.reader.chunk.size.bytes": "1MB",
        "alluxio.worker.page.store.page.size": "4MB",
    }


def test_the_stand_in_reads_as_java_does(program: Path, tmp_path: Path) -> None:
    texts = [path.read_bytes().decode("iso-8859-1") for path in sorted(DATA.glob("*.properties"))]
    texts += ["a=1\\\n   b\n", "k\\ ey : v\\\\\nz\n", "# x\\\ny=1\n", "a=b\\\r\nc\rd=\\u0041\n"]
    for text, java in zip(texts, by_java(program, tmp_path, texts), strict=True):
        assert dict(alluxio_fuse.properties(text)) == java
