"""One rank of a job that adds up with oneCCL's C API: prints the sum. Started by a launch script that a test wrote."""

import ctypes
import os
import sys
import time
from pathlib import Path

from runners.oneccl.rank_library import Library

library, meeting = Library(sys.argv[1]), Path(sys.argv[2])
rank = int(os.environ.get("PMI_RANK") or os.environ["OMPI_COMM_WORLD_RANK"])
ranks = int(os.environ.get("PMI_SIZE") or os.environ["OMPI_COMM_WORLD_SIZE"])
if rank == 0:
    meeting.with_suffix(".part").write_bytes(library.unique_id())
    meeting.with_suffix(".part").rename(meeting)
while not meeting.exists():
    time.sleep(0.01)
library.join(meeting.read_bytes(), rank, ranks)
send, receive = (ctypes.c_float * 256)(*([1.0 + rank] * 256)), (ctypes.c_float * 256)()
result = library.call("allreduce", ctypes.addressof(send), ctypes.addressof(receive), 256, 7)()
library.leave()
library.flush()
sys.stdout.write(f"\nsum {result} {set(receive)}\n")
