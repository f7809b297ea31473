#!/bin/sh
# From a copied env file to proven settings. Usage: tune.sh REMOTE:PATH
# CONFIG=FILE is rclone's configuration, DATA what is read in the mount, JOBS how many read at once, TIME=3m for the search.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
remote=${1:?usage: tune.sh REMOTE:PATH}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp "$here/rclone.env" "$work/rclone.env"
set -- --remote "$remote" --jobs "${JOBS:-1}"
[ -z "${CONFIG:-}" ] || set -- "$@" --config "$CONFIG"
[ -z "${DATA:-}" ] || set -- "$@" --data "$DATA"

echo '== what is wrong with the file as it is'
tune lint "$work/rclone.env" || true

echo '== mend what is safe to mend'
tune lint "$work/rclone.env" --fix || true

echo '== what can run here, before anything is mounted'
tune doctor rclone "$@"

echo "== beat rclone's own defaults"
code=0
tune rclone "$@" --load fio --read-time "${READ:-3s}" --time "${TIME:-3m}" --study example --storage "$work/studies.db" || code=$?

case $code in
0 | 3)
    echo '== a script that mounts so'
    tune export example --storage "$work/studies.db" --format script -o "$work/mount.sh"
    cat "$work/mount.sh"
    ;;
*) exit "$code" ;;
esac
[ "$code" -ne 3 ] || echo '== nothing beat the present setting: it stays'
