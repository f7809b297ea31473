#!/bin/sh
# From a copied start script to proven settings. Usage: tune.sh
# HOSTS=FILE names the hosts (this one, if none), MODEL=NAME the model, TIME=2m how long the search may take.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp "$here/run_hosts.sh" "$work/run_hosts.sh"

echo '== what is wrong with the script as it is'
tune lint "$work/run_hosts.sh" --topology "$here/host.json" || true

echo '== mend what is safe to mend'
tune lint "$work/run_hosts.sh" --fix || true

echo '== what its cores should be, from one host that was recorded: nothing is measured'
tune xft --dry-run --topology "$here/host.json" --hosts 192.0.2.1,192.0.2.2,192.0.2.3,192.0.2.4 --model qwen-72b

echo '== what can run here, before anything is measured'
tune doctor xft ${HOSTS:+--hosts "$HOSTS"} --model "${MODEL:-tiny}"

echo "== beat what xFT's own scripts would choose here"
code=0
tune xft ${HOSTS:+--hosts "$HOSTS"} --model "${MODEL:-tiny}" --time "${TIME:-2m}" \
    --study example --storage "$work/studies.db" || code=$?

case $code in
0 | 3)
    echo '== a script that starts a job so'
    tune export example --storage "$work/studies.db" --format script -o "$work/run_xft.sh"
    cat "$work/run_xft.sh"
    ;;
*) exit "$code" ;;
esac
[ "$code" -ne 3 ] || echo '== nothing beat the present setting: it stays'
