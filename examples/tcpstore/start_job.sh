#!/bin/sh
# A start script as it grew over the years: 64 ranks with srun, one call a rank.
ulimit -n 1024
export MASTER_ADDRESS=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
export MASTER_PORT=29500
export USE_LIBUV=True
export RANK=$SLURM_PROCID WORLD_SIZE=$SLURM_NTASKS
exec python3 train.py
