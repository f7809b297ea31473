"""Real ranks, one of them late: prints for every form of barrier when each rank came and left.

late.py FORM: with the form "reused", all ranks pass the first form once more with the key that they used before.
"""

import json
import sys
import threading
import time
from datetime import timedelta

from torch.distributed import TCPStore

from runners.tcpstore.rank import pass_barrier

RANKS, LATE = 4, 0.5
LIMIT = timedelta(seconds=20)


def main(form: str) -> None:
    server = TCPStore("127.0.0.1", 0, None, True, LIMIT)
    seen: list[tuple[int, float, float]] = []

    def rank(number: int) -> None:
        store = TCPStore("127.0.0.1", server.port, None, False, LIMIT)
        key = "once"
        pass_barrier(store, "keys" if form == "reused" else form, key, RANKS, LIMIT)
        if form != "reused":
            key = "again"
        if number == RANKS - 1:
            time.sleep(LATE)
        came = time.monotonic()
        pass_barrier(store, "keys" if form == "reused" else form, key, RANKS, LIMIT)
        seen.append((number, came, time.monotonic()))

    threads = [threading.Thread(target=rank, args=(number,)) for number in range(RANKS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(json.dumps(seen))


if __name__ == "__main__":
    main(sys.argv[1])
