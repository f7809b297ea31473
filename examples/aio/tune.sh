#!/bin/sh
# From a ds_config.json with a stale aio block to a proven one. Usage: tune.sh [FOLDER ON THE DEVICE]
set -eu
here=$(cd "$(dirname "$0")" && pwd)
device=${1:-$PWD}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp "$here/ds_config.json" "$work/ds_config.json"

echo '== what is wrong with the file as it is'
tune lint "$work/ds_config.json" || true

echo '== mend what is safe to mend'
tune lint "$work/ds_config.json" --fix

echo '== beat what it says now, on this device, for optimizer states in 64 MB tensors'
code=0
tune aio --device "$device" --baseline "$work/ds_config.json" --time "${TIME:-1m}" --study example --storage "$work/studies.db" || code=$?

case $code in
0)
    echo '== look at the change, then make it'
    tune export example --storage "$work/studies.db" --into "$work/ds_config.json" --diff
    tune export example --storage "$work/studies.db" --into "$work/ds_config.json"
    tune lint "$work/ds_config.json" || true
    ;;
3) echo '== nothing beat the present block: it stays' ;;
*) exit "$code" ;;
esac
cat "$work/ds_config.json"
