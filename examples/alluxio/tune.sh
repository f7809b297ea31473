#!/bin/sh
# From a copied site file to proven prefetch settings. Usage: tune.sh [MOUNT_POINT [OPTION OF tune alluxio]...]
# ALLUXIO_HOME names the installation, TIME=5m how long the search may take, LOAD=fio what reads. The site file of the
# installation is the baseline; it and the mount are as before when this ends. Without a mount point only the file is
# looked at.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp "$here/alluxio-site.properties" "$work/alluxio-site.properties"

echo '== what is wrong with the file as it is'
tune lint "$work/alluxio-site.properties" --alluxio-version 3.6 || true

echo '== mend what is safe to mend'
tune lint "$work/alluxio-site.properties" --alluxio-version 3.6 --fix || true

[ "$#" -ge 1 ] || exit 0
point=$1
shift
echo '== what can run here, before anything is mounted'
tune doctor alluxio --mount "$point"

echo '== beat the settings that there are'
site="${SITE:-$ALLUXIO_HOME/conf/alluxio-site.properties}"
code=0
tune alluxio --mount "$point" --load "${LOAD:-fio}" --read-time "${READ_TIME:-3s}" --baseline "$site" \
    --time "${TIME:-5m}" "$@" --study example --storage "$work/studies.db" || code=$?

case $code in
0 | 3)
    echo '== what would change in the copied file, its credentials hidden'
    tune export example --storage "$work/studies.db" --into "$work/alluxio-site.properties" --diff
    echo '== merge it, look at it, put it back'
    tune export example --storage "$work/studies.db" --into "$work/alluxio-site.properties"
    tune export --rollback "$work/alluxio-site.properties"
    echo '== the memory that the FUSE process needs, which is no property'
    tune export example --storage "$work/studies.db" --format env
    ;;
*) exit "$code" ;;
esac
[ "$code" -ne 3 ] || echo '== nothing beat the present setting: it stays'
