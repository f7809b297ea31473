#!/bin/sh
# From the size of a data set to a report. Usage: run.sh
# DATA=DIR is where the data set goes (a temporary folder, if none), FILES=N its files, RECORD=BYTES a record's length ("" is
# MLPerf's own), ACCELERATORS=N how many are emulated, RUNS=N the runs.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
data=${DATA:-$work/data}
accelerators=${ACCELERATORS:-2}
record=${RECORD-262144}

echo '== how many files the rules ask for'
tune mlperf size --model unet3d --accelerators "$accelerators"

# Small records take less time to compute on, so that the accelerators ask for as much as real ones do of real records.
small=
[ -z "$record" ] || small="--open --param dataset.record_length=$record --param dataset.record_length_stdev=0
  --param dataset.record_length_resize=65536 --param train.computation_time=0.02 --param reader.batch_size=1"

echo '== make the data set and train on it'
code=0
# shellcheck disable=SC2086  # words on purpose
tune mlperf run --data "$data" --files "${FILES:-100}" --accelerators "$accelerators" --epochs 2 --runs "${RUNS:-2}" \
    --results "$work/results" $small || code=$?
[ "$code" -le 1 ] || exit "$code"

echo '== the report, with what keeps it from being a submission'
tune mlperf report "$work/results" || [ $? -eq 1 ]
