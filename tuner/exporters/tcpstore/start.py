"""start.sh: starts one rank (script) or one node (torchrun) with the variables of tcpstore.env."""

from __future__ import annotations

_HEAD = """\
#!/bin/sh
# Starts {what} of a job with the settings in tcpstore.env, which lies beside this file.
# Usage: {usage}
set -eu
[ "$#" -ge 5 ] || {{ echo "usage: {usage}" >&2; exit 2; }}
here=$(cd "$(dirname "$0")" && pwd)
set -a
. "$here/tcpstore.env"
set +a
"""
_ADDRESS = """\
if [ "${CLUSTERTUNE_ADDRESS:-name}" = ip ]; then
    host=$(getent ahostsv4 "$host" | awk 'NR == 1 { print $1 }')
fi
"""
_BACKLOG = """\
# Measured with a backlog that holds all ranks; only root can raise it.
somaxconn=$(cat /proc/sys/net/core/somaxconn 2>/dev/null || echo 0)
if [ "${number}" = 0 ] && [ "${{CLUSTERTUNE_BACKLOG:-present}}" = raised ] && [ "$somaxconn" -lt {ranks} ]; then
    echo "$0: net.core.somaxconn is $somaxconn and {ranks} ranks connect at once: raise it first" >&2
fi
"""
_WAIT = """\
# A client that tries before rank 0 listens backs off for half a second each time; after a minute it tries all the same.
if [ "${number}" != 0 ] && [ "${{CLUSTERTUNE_START:-together}}" != together ]; then
    listens='import socket, sys; socket.create_connection((sys.argv[1], int(sys.argv[2])), 5)'
    tries=0
    until python3 -c "$listens" "$host" "$port" 2>/dev/null || [ "$tries" -ge 600 ]; do
        tries=$((tries + 1))
        sleep 0.1
    done
fi
"""


_HOME = """\
# Whether HOST is this node: its address can be bound here.
own='import socket, sys; socket.socket().bind((socket.gethostbyname(sys.argv[1]), 0))'
if python3 -c "$own" "$host" 2>/dev/null; then node=0; else node=1; fi
"""


def script(launch: str) -> str:
    if launch == "torchrun":
        head = _HEAD.format(what="one node", usage="start.sh NODES PROCESSES_A_NODE HOST PORT PROGRAM [ARGUMENT …]")
        backlog = _BACKLOG.format(number="node", ranks="$((nodes * processes))")
        return (
            f"{head}nodes=$1 processes=$2 host=$3 port=$4\nshift 4\n{_HOME}{backlog}{_ADDRESS}{_WAIT.format(number='node')}"
            'exec torchrun --nnodes="$nodes" --nproc-per-node="$processes" --rdzv-backend=c10d --rdzv-id="${JOB_ID:-job}" \\\n'
            '    --rdzv-endpoint="$host:$port" "$@"\n'
        )
    head = _HEAD.format(what="one rank", usage="start.sh RANK WORLD_SIZE HOST PORT PROGRAM [ARGUMENT …]")
    backlog = _BACKLOG.format(number="RANK", ranks="$WORLD_SIZE")
    return (
        f"{head}RANK=$1 WORLD_SIZE=$2 host=$3 port=$4\nshift 4\n{backlog}{_ADDRESS}{_WAIT.format(number='RANK')}"
        'MASTER_ADDR=$host MASTER_PORT=$port\nexport RANK WORLD_SIZE MASTER_ADDR MASTER_PORT\nexec "$@"\n'
    )
