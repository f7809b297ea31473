#!/bin/sh
# From a grown mount script to proven settings. Usage: tune.sh META-URL      (a password goes into META_PASSWORD)
# DATA is what is read in the volume, JOBS how many read at once, TIME=3m how long the search may take.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
meta=${1:?usage: tune.sh META-URL}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp "$here/mount.sh" "$work/mount.sh"
set -- --meta "$meta" --jobs "${JOBS:-1}"
[ -z "${DATA:-}" ] || set -- "$@" --data "$DATA"

echo '== what is wrong with the script as it is'
tune lint "$work/mount.sh" || true

echo '== mend what is safe to mend'
tune lint "$work/mount.sh" --fix || true

echo '== what can run here, before anything is mounted'
tune doctor juicefs "$@"

echo '== beat what the script sets'
code=0
tune juicefs "$@" --load fio --read-time "${READ:-3s}" --baseline "$work/mount.sh" --time "${TIME:-3m}" \
    --study example --storage "$work/studies.db" || code=$?

case $code in
0)
    echo '== the settings, merged into the script'
    tune export example --storage "$work/studies.db" --into "$work/mount.sh"
    cat "$work/mount.sh"
    ;;
3) echo '== nothing beat the present setting: it stays' ;;
*) exit "$code" ;;
esac
