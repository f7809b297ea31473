#!/bin/bash
# Starts Qwen-72B on four virtual machines of 96 CPUs.
export LD_PRELOAD=$HOME/xFasterTransformer/3rdparty/mklml/lib/libiomp5.so
export CCL_PROCESS_LAUNCHER=none
export CCL_WORKER_COUNT=1
export XFT_COMM_TIME=1
export OMP_NUM_THREAD=48
BENCHMARK="python benchmark.py --model_name qwen-72b --dtype bf16 --beam_width 1"
mpirun -iface=eth0 \
    -n 1 -host 192.0.2.1 numactl --all -C 0-47 -m 0 $BENCHMARK : \
    -n 1 -host 192.0.2.2 numactl --all -C 0-47 -m 0 $BENCHMARK : \
    -n 1 -host 192.0.2.3 numactl --all -C 0-47 -m 0 $BENCHMARK : \
    -n 1 -host 192.0.2.4 numactl --all -C 0-47 -m 0 $BENCHMARK
