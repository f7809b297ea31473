#!/bin/sh
# From a copied env file to proven settings. Usage: tune.sh
# HOSTS=FILE names the hosts (this one, if none), SIZES=1K,64K what the job moves, TIME=1m how long the search may take.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp "$here/oneccl.env" "$work/oneccl.env"

echo '== what is wrong with the file as it is'
tune lint "$work/oneccl.env" || true

echo '== mend what is safe to mend'
tune lint "$work/oneccl.env" --fix || true

echo '== what can run here, before anything is measured'
tune doctor oneccl ${HOSTS:+--hosts "$HOSTS"} --sizes "${SIZES:-1K,64K}"

echo '== beat oneCCL without any variables'
code=0
tune oneccl ${HOSTS:+--hosts "$HOSTS"} --sizes "${SIZES:-1K,64K}" --time "${TIME:-1m}" \
    --study example --storage "$work/studies.db" || code=$?

case $code in
0 | 3)
    echo '== a script that starts a job so'
    tune export example --storage "$work/studies.db" -o "$work/run_oneccl.sh"
    cat "$work/run_oneccl.sh"
    ;;
*) exit "$code" ;;
esac
[ "$code" -ne 3 ] || echo '== nothing beat the present setting: it stays'
