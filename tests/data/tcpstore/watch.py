"""Returns when COUNT ranks have come to a barrier: watch.py HOST PORT KEY COUNT."""

import sys
import time
from datetime import timedelta

from torch.distributed import TCPStore


def main(host: str, port: int, key: str, count: int) -> None:
    deadline = time.monotonic() + 60
    store = TCPStore(host, port, None, False, timedelta(seconds=60), wait_for_workers=False)
    while store.add(key, 0) < count:
        if time.monotonic() > deadline:
            raise SystemExit(f"{store.add(key, 0)} of {count} came to {key}")
        time.sleep(0.02)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3], int(sys.argv[4]))
