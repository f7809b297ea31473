"""What a user reads where the Python that shall hold the ranks is none."""

from __future__ import annotations

from contextlib import closing

import pytest

from runners.hosts.host import Host
from runners.launch.crew import Unreachable
from runners.launch.direct import Local
from runners.tcpstore.crew import Crew


@pytest.mark.parametrize(
    ("python", "said"),
    [
        ("/nonexistent/python", "h1: /nonexistent/python can't be started: No such file or directory"),
        ("/", "h1: / can't be started: Permission denied"),
        ("/bin/true", "h1: /bin/true ended before it answered"),
    ],
)
def test_a_python_that_is_none_is_named_with_its_host(python: str, said: str) -> None:
    with pytest.raises(Unreachable) as caught, closing(Crew.connect([Host("h1")], Local(), python)):
        pass
    assert caught.value.message == said
    assert caught.value.mend.startswith("--python names a Python there that is 3.10 or newer")
    assert caught.value.mend.endswith(f"(now {python})")
