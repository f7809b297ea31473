"""One rank of a job that times allreduce with oneCCL's C API: rank 0 prints the median call in microseconds.

Arguments: the library, a file to meet by (on a file system that all ranks see), bytes.
"""

import ctypes
import os
import sys
import time
from pathlib import Path
from statistics import median

from runners.oneccl.rank_library import Library

WARM, CALLS, FLOAT32, FLOAT64 = 20, 200, 7, 8

library, meeting, count = Library(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]) // 4
rank = int(os.environ.get("PMI_RANK") or os.environ["OMPI_COMM_WORLD_RANK"])
ranks = int(os.environ.get("PMI_SIZE") or os.environ["OMPI_COMM_WORLD_SIZE"])
if rank == 0:
    meeting.with_suffix(".part").write_bytes(library.unique_id())
    meeting.with_suffix(".part").rename(meeting)
while not meeting.exists():
    time.sleep(0.01)
library.join(meeting.read_bytes(), rank, ranks)
send, receive = (ctypes.c_float * count)(*([1.0 + rank] * count)), (ctypes.c_float * count)()
call = library.call("allreduce", ctypes.addressof(send), ctypes.addressof(receive), count, FLOAT32)
one = (ctypes.c_float * 1)()
barrier = library.call("allreduce", ctypes.addressof(one), ctypes.addressof(one), 1, FLOAT32)
mine = (ctypes.c_double * (CALLS * ranks))()
for index in range(WARM + CALLS):
    barrier()
    begun = time.perf_counter()
    failed = call()
    taken = time.perf_counter() - begun
    if failed or receive[count - 1] != ranks * (ranks + 1) / 2:
        sys.exit(f"rank {rank}: call {index} went wrong")
    if index >= WARM:
        mine[(index - WARM) * ranks + rank] = taken
# Every rank has filled its own places, so that the sum holds all.
everyone = (ctypes.c_double * len(mine))()
library.call("allreduce", ctypes.addressof(mine), ctypes.addressof(everyone), len(mine), FLOAT64)()
library.leave()
library.flush()
if rank == 0:
    slowest = [max(everyone[index * ranks : (index + 1) * ranks]) for index in range(CALLS)]
    sys.stdout.write(f"\nus {1e6 * median(slowest):.2f}\n")
