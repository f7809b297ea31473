#!/bin/sh
# From a start script with a value that reads as its opposite to proven settings. Usage: tune.sh
# RANKS=16 is the size of the job that is started again and again on this machine, TIME=1m how long that may take.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp "$here/start_job.sh" "$work/start_job.sh"

echo '== what is wrong with the script as it is'
tune lint "$work/start_job.sh" || true

echo '== mend what is safe to mend'
tune lint "$work/start_job.sh" --fix || true

echo '== what bounds a start here, before anything is started'
tune doctor tcpstore --world-size "${RANKS:-16}"

echo '== beat what the script says now'
code=0
tune tcpstore --world-size "${RANKS:-16}" --baseline "$work/start_job.sh" --time "${TIME:-1m}" \
    --study example --storage "$work/studies.db" || code=$?

case $code in
0 | 3)
    echo '== the env file, and a module that makes the store so'
    tune export example --storage "$work/studies.db" --format python -o "$work"
    cat "$work/tcpstore.env"
    ;;
*) exit "$code" ;;
esac
[ "$code" -ne 3 ] || echo '== nothing beat the present setting: it stays'
