"""oneCCL's files: what is written reads back, lints clean and runs; what a user has stays; what ends a job is found."""

from __future__ import annotations

import contextlib
import os
import random
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.mpis import KINDS, folder
from support.rig import Rig

from spaces.oneccl import SPACE, environment
from spaces.space import Config
from tuner.errors import WrongUsage
from tuner.exporters import oneccl, shell
from tuner.recommendation import Gain, Recommendation

ROOT = Path(__file__).parents[3]
CONFIGS = SPACE.pool(random.Random(5), 3000)
TWO_HOSTS = {
    "launcher": "intel", "mpi": "Intel MPI 2021.18", "mpirun": "mpirun", "hosts": ["hbA", "hbB"], "ppn": 2, "iface": "e0",
    "pins": [], "collective": "allreduce", "transport": "mpi",
}  # fmt: skip
SCRIPT = """#!/bin/bash
# starts the job
set -e
export CCL_YIELD=sleep   # as ever
export CCL_LOG_LEVEL=warn CCL_WORKER_COUNT=2
mpirun -n 4 -ppn 2 -hosts a,b -genv FI_PROVIDER tcp -genv OTHER 1 python train.py --env CCL_YIELD=none
"""


def setting(**values: bool | int | str) -> dict[str, bool | int | str]:
    return {**SPACE.default, **values}


def answer(config: Config, machine: dict | None = None, **fields) -> Recommendation:
    return Recommendation(
        "study-1", "oneccl", "embedded", "adopt", config, SPACE.default, Gain(1.31, 1.24, 1.39, 0.9), "r", {}, {},
        machine=TWO_HOSTS if machine is None else machine, **fields,
    )  # fmt: skip


def rendered(config: Config, format: str = "env", machine: dict | None = None, **options) -> str:
    (text,) = oneccl.render(answer(config, machine), format, options).values()
    return text


# Written and read back


@settings(deadline=None)
@given(st.sampled_from(CONFIGS), st.sampled_from(["env", "script"]), st.booleans())
def test_every_setting_reads_back(config: Config, format: str, alone: bool) -> None:
    machine = {} if alone else TWO_HOSTS
    text = rendered(config, format, machine)
    assert oneccl.present(text, {}) == config
    assert oneccl.matches("oneccl.env" if format == "env" else "x.sh", text) or environment(config) == {}
    assert [each for each in oneccl.lint(text, {}) if config["provider"] != "shm"] == []
    assert oneccl.merge(text, answer(config, machine), {}).text == text
    assert {name: each.value for name, each in shell.last(text).items() if name in environment(config)} == environment(config)


def test_comments_say_what_each_is_worth() -> None:
    gains = {"yield": {"ratio": 1.2, "low": 1.1, "high": 1.3}, "algorithm_small": 2.0, "algorithm_large": {"ratio": 1.15}}
    config = setting(**{"yield": "sleep"}, algorithm_small="ring", algorithm_large="2d", shm=True, transport="ofi")
    found = answer(config, evidence={"gains": gains}, options={})
    (text,) = oneccl.render(found, "env", {}).values()
    assert "# 1.31x the speed of the baseline (1.24x to 1.39x with 90% confidence), measured with Intel MPI 2021.18.\n" in text
    assert "# what threads do while they wait: 1.20x (1.10x to 1.30x)\nCCL_YIELD=sleep\n" in text
    assert "in bytes: 2.00x up to 16 KiB, 1.15x above 1 MiB\nCCL_ALLREDUCE=" in text
    assert "# shared memory between the ranks of a host\nCCL_ATL_SHM=1\n" in text
    assert 'CCL_ALLREDUCE="ring:0-16384;2d:1048577-max"\n' in text


def test_defaults_set_nothing_and_say_so() -> None:
    text = rendered(SPACE.default, "env", {})
    assert "No variable is set: oneCCL's own choices are best." in text
    kept = Recommendation("s", "oneccl", "e", "keep", SPACE.default, SPACE.default, None, "r", {}, {})
    assert "Nothing beat the baseline, oneCCL with no variable set." in oneccl.render(kept, "env", {})["oneccl.env"]
    assert all(line.startswith("#") for line in text.splitlines())


def test_what_the_baseline_has_too_is_kept() -> None:
    config = setting(**{"yield": "sleep"}, fusion=True)
    found = Recommendation(
        "s", "oneccl", "e", "adopt", config, setting(**{"yield": "sleep"}), None, "r", {}, {}, machine=TWO_HOSTS
    )
    (text,) = oneccl.render(found, "env", {}).values()
    assert "# what threads do while they wait: as in the baseline\nCCL_YIELD=sleep\n" in text


def test_collective_by_oneccl_s_own_name() -> None:
    machine = {**TWO_HOSTS, "collective": "broadcast"}
    text = rendered(setting(algorithm_small="double_tree"), "env", machine)
    assert 'CCL_BROADCAST="double_tree:0-16384"' not in text  # nothing to quote
    assert "CCL_BROADCAST=double_tree:0-16384\n" in text
    assert oneccl.present(text, {"collective": "bcast"})["algorithm_small"] == "double_tree"


def test_machinefiles() -> None:
    assert rendered(SPACE.default, "machinefile") == "hbA:2\nhbB:2\n"
    assert rendered(SPACE.default, "machinefile", mpi="openmpi", ppn=4) == "hbA slots=4\nhbB slots=4\n"
    assert rendered(SPACE.default, "machinefile", {}) == "localhost:2\n"
    assert rendered(SPACE.default, "machinefile", hosts="node[01-02]") == "node01:2\nnode02:2\n"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"mpi": "mvapich"}, "--mpi mvapich: must be intel, mpich or openmpi."),
        ({"job_limit": "soon"}, "--job-limit soon: 'soon' is not a duration"),
        ({"hosts": "3"}, "--hosts 3: the study has 2"),
        ({"hosts": "-oProxyCommand=x"}, "begins with '-'"),
        ({"hosts": "a;b"}, "is not a host's name"),
        ({"ppn": 0}, "--ppn 0: must be a whole number"),
    ],
)
def test_options_that_can_t_be_used(options: dict, said: str) -> None:
    with pytest.raises(WrongUsage) as caught:
        rendered(SPACE.default, "script", **options)
    assert said in caught.value.message


def test_transport_mpi_is_not_for_open_mpi() -> None:
    with pytest.raises(WrongUsage, match="works with Intel MPI and MPICH only"):
        rendered(setting(transport="mpi"), "script", mpi="openmpi")


def test_hosts_of_a_study_are_names_or_nothing() -> None:
    with pytest.raises(WrongUsage, match="hosts can't be used"):
        rendered(SPACE.default, "script", {**TWO_HOSTS, "hosts": ["a; rm -rf x"]})


def test_job_limit() -> None:
    assert "limit=${LIMIT:-43200}" in rendered(SPACE.default, "script", job_limit="12h")
    assert "#SBATCH --time=720:00\n" in rendered(SPACE.default, "sbatch", job_limit="12h")
    assert "--time" not in rendered(SPACE.default, "sbatch")


def test_batch_job() -> None:
    text = rendered(setting(pinning="numa", provider="tcp"), "sbatch")
    assert "#SBATCH --nodes=2\n#SBATCH --ntasks-per-node=2\n" in text
    assert "I_MPI_PIN_DOMAIN=numa where it was measured, here it is srun's --cpu-bind=ldoms\n" in text
    assert text.rstrip().endswith('exec srun --mpi=pmi2 --kill-on-bad-exit=1 --export=ALL --cpu-bind=ldoms "$@"')
    assert "export FI_PROVIDER=tcp\n" in text


# A user's own files


def test_merge_changes_what_is_ours_and_nothing_else() -> None:
    config = setting(**{"yield": "sched_yield"}, algorithm_small="ring", algorithm_medium="2d")
    merged = oneccl.merge(SCRIPT, answer(config), {})
    assert merged.text == SCRIPT.replace("CCL_YIELD=sleep", "CCL_YIELD=sched_yield").replace(
        " CCL_WORKER_COUNT=2", ""
    ).replace("-genv FI_PROVIDER tcp ", "").replace("--env CCL_YIELD=none", "--env CCL_YIELD=sched_yield").replace(
        "set -e\n",
        'export CCL_ALLREDUCE="ring:0-16384;2d:16385-1048576"\nexport CCL_KVS_IFACE=e0\nexport FI_TCP_IFACE=e0\nset -e\n',
    )
    assert len(merged.notes) == 2
    assert "removed FI_PROVIDER=tcp: the recommendation leaves it to oneCCL and MPI" in merged.notes
    assert oneccl.present(merged.text, {}) == config


def test_merge_sets_pairs_and_quotes() -> None:
    merged = oneccl.merge(SCRIPT, answer(setting(provider="verbs")), {}).text
    assert '-genv FI_PROVIDER "verbs;ofi_rxm" -genv OTHER 1' in merged


@settings(deadline=None)
@given(st.sampled_from(CONFIGS), st.sampled_from(CONFIGS))
def test_merge_into_a_script_of_our_own(old: Config, new: Config) -> None:
    merged = oneccl.merge(rendered(old, "script"), answer(new), {}).text
    assert oneccl.present(merged, {}) == new
    unset = {name for line in merged.splitlines() if line.startswith("unset ") for name in line.split()[1:]}
    assert not unset & set(environment(new))


def test_merge_says_what_open_mpi_leaves_behind() -> None:
    text = rendered(SPACE.default, "script", mpi="openmpi")
    merged = oneccl.merge(text, answer(setting(**{"yield": "sleep"})), {"mpi": "openmpi"})
    assert merged.notes == ("Open MPI hands no variable on to other hosts: add -x CCL_YIELD to its mpirun",)
    assert oneccl.merge(merged.text, answer(setting(**{"yield": "sleep"})), {"mpi": "openmpi"}).text == merged.text


LINES = st.sampled_from(
    [
        *SCRIPT.splitlines(),
        "",
        "CCL_WORKERS_COUNT=4",
        "export CCL_FUSION=yes",
        "CCL_FUSION=1",
        "FI_PROVIDER=tcp;ofi_rxm",
        'export FI_PROVIDER="tcp;ofi_rxm"',
        "export CCL_ALLREDUCE=ring;",
        "CCL_ALLREDUCE=ring:0-16384;2d:16385-max",
        "CCL_ALLREDUCE='Ring:0-8192; ring:8193-max'",
        "I_MPI_PIN=0",
        "CCL_WORKER_AFFINITY=3",
        "FI_TCP_IFACE=lo",
        "srun -N 2 x",
        "x=$CCL_YIELD",
        "export CCL_YIELD=$Y",
        "if x; then export CCL_FUSION=on; fi",
        "mpirun -genv CCL_ATL_SHM true x",
        "# CCL_FUSION=yes",
        "\ttext",
        "CCL_FOO=1",
        "ONECCL_YIELD=pause",
        "CCL_ATL_TRANSPORT=ofi",
        "I_MPI_OFI_PROVIDER=verbs",
        "CCL_CHUNK_COUNT=2",
        "é=1",
        "A='",
    ]
)
TEXTS = st.builds(
    lambda lines, end, tail: end.join(lines) + tail,
    st.lists(LINES, max_size=8),
    st.sampled_from(["\n", "\r\n"]),
    st.sampled_from(["", "\n"]),
)


@settings(deadline=None)
@given(TEXTS, st.sampled_from(CONFIGS))
def test_any_script_takes_any_setting(text: str, config: Config) -> None:
    merged = oneccl.merge(text, answer(config, {}), {}).text
    values = {name: each.value for name, each in shell.last(merged).items()}
    for name, value in environment(config).items():
        assert values[name] == value
    others = [line for line in text.splitlines() if "_" not in line and line.strip()]
    assert [line for line in merged.splitlines() if line in others] == others


@settings(deadline=None)
@given(st.one_of(TEXTS, st.text(max_size=200)), st.sampled_from([{}, {"ppn": 2, "hosts": "2"}]))
def test_fix_ends_and_leaves_nothing_safe(text: str, options: dict) -> None:
    fixed = oneccl.fix(text, options)
    assert not [each for each in oneccl.lint(fixed, options) if each.safe]
    assert oneccl.fix(fixed, options) == fixed
    assert all(1 <= each.line <= text.count("\n") + 1 for each in oneccl.lint(text, options))


@settings(deadline=None)
@given(TEXTS)
def test_any_script_is_read_or_a_sentence(text: str) -> None:
    said = ""
    try:
        now = oneccl.present(text, {})
        assert set(now) == set(SPACE.default)
        oneccl.present_notes(text, {})
    except WrongUsage as error:
        said = error.message
    assert "Traceback" not in said
    assert not said or said.endswith(".")


# The baseline


def test_present_reads_what_people_write() -> None:
    text = (
        "CCL_ATL_TRANSPORT=OFI\nFI_PROVIDER=TCP\nCCL_WORKER_COUNT=6\nCCL_SPIN_COUNT=100\nI_MPI_PIN=1\nI_MPI_PIN_DOMAIN=auto\n"
        "CCL_ALLREDUCE=ring\nCCL_FUSION=0\n"
    )
    assert oneccl.present(text, {}) == setting(
        transport="ofi", provider="tcp", worker_count=6, spin_count="100",
        algorithm_small="ring", algorithm_medium="ring", algorithm_large="ring",
    )  # fmt: skip
    assert oneccl.present_notes(text, {}) == []


def test_present_takes_borders_where_the_sizes_allow() -> None:
    text = 'CCL_ALLREDUCE="recursive_doubling:0-8192;rabenseifner:8193-1048576;ring:1048577-max"\n'
    with pytest.raises(WrongUsage, match="changes its algorithm at 8192 bytes, within a range that is tuned as one"):
        oneccl.present(text, {})
    for sizes, small in (("1K,64K,4M", "recursive_doubling"), ("16K,64K,4M", "rabenseifner")):
        now = oneccl.present(text, {"sizes": sizes, "ppn": 2, "hosts": "", "mpi": ""})
        assert (now["algorithm_small"], now["algorithm_medium"], now["algorithm_large"]) == (small, "rabenseifner", "ring")
    with pytest.raises(WrongUsage):
        oneccl.present(text, {"sizes": "1K,16K"})


def test_present_of_several_collectives() -> None:
    text = "CCL_ALLREDUCE=ring\nCCL_ALLGATHERV=flat\n"
    assert oneccl.present(text, {})["algorithm_small"] == "ring"
    assert oneccl.present(text, {"collective": "allgather"})["algorithm_small"] == "flat"
    assert oneccl.present("CCL_BCAST=naive\n", {"collective": "bcast"})["algorithm_small"] == "naive"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("FI_PROVIDER=foo\n", "names 'foo', which is no provider of libfabric"),
        ("I_MPI_OFI_PROVIDER=tcp;ofi_rxm\n", "tcp is what works"),
        ("FI_PROVIDER=tcp,shm\n", "which is not measured"),
        ("CCL_FUSION=yes\n", "only 0 and 1 are valid"),
        ("I_MPI_PIN_DOMAIN=socket\n", "is not measured; one of auto:scatter, core, numa is."),
        ("I_MPI_PIN=maybe\n", "it is 0 or 1"),
        ("CCL_ALLREDUCE=Ring\n", "write ring"),
        ("CCL_WORKER_COUNT=$N\n", "write a whole number"),
        ('{"aio": 1}', "neither an env file"),
    ],
)
def test_present_refuses(text: str, said: str) -> None:
    with pytest.raises(WrongUsage) as caught:
        oneccl.present(text, {})
    assert said in caught.value.message


@pytest.mark.parametrize("text", ["", "hello\n", "PATH=/bin\n", "export CCL_LOG_LEVEL=info\n"])
def test_a_file_without_anything_tuned_is_no_silent_baseline(text: str) -> None:
    assert "the baseline is what oneCCL does by itself" in oneccl.present_notes(text, {})[0]


def test_present_notes_name_what_is_not_in_the_baseline() -> None:
    text = (
        "CCL_WORKER_AFFINITY=3\nCCL_CHUNK_COUNT=4\nFI_TCP_IFACE=e0\nCCL_LOG_LEVEL=info\nI_MPI_DEBUG=5\nFI_OFI_RXM_TX_SIZE=8\n"
    )
    notes = oneccl.present_notes(text, {})
    assert notes == [
        "CCL_CHUNK_COUNT: all of CCL_CHUNK_COUNT, CCL_RS_CHUNK_COUNT, CCL_ALLREDUCE_2D_CHUNK_COUNT are taken as 4",
        "CCL_WORKER_AFFINITY, FI_OFI_RXM_TX_SIZE: not tuned, and not part of the baseline",
        "FI_TCP_IFACE: not read from the file; name the interface with --iface",
    ]
    assert oneccl.present(text, {})["chunk_count"] == 4


# Lint


@pytest.mark.parametrize(
    ("text", "options", "key", "said", "fixed"),
    [
        ("CCL_WORKERS_COUNT=4\n", {}, "CCL_WORKERS_COUNT", "CCL_WORKER_COUNT is what it reads", "CCL_WORKER_COUNT=4\n"),
        ("CCL_FUSION=yes\n", {}, "CCL_FUSION", "only 0 and 1", "CCL_FUSION=1\n"),
        ("export CCL_FUSION='False' # x\nx\n", {}, "CCL_FUSION", "only 0 and 1", "export CCL_FUSION=0 # x\nx\n"),
        ("mpirun -genv CCL_ATL_SHM true x\n", {}, "CCL_ATL_SHM", "only 0 and 1", "mpirun -genv CCL_ATL_SHM 1 x\n"),
        ("CCL_FUSION=2\n", {}, "CCL_FUSION", "only 0 and 1", None),
        ("CCL_FOO=1\n", {}, "CCL_FOO", "passes over it in silence", None),
        ("CCL_YIELD=fast\n", {}, "CCL_YIELD", "one of none, pause, sleep, sched_yield", None),
        ('I_MPI_OFI_PROVIDER="tcp;ofi_rxm"\n', {}, "I_MPI_OFI_PROVIDER", "tcp is what works", "I_MPI_OFI_PROVIDER=tcp\n"),
        ("export FI_PROVIDER=verbs;ofi_rxm\nx\n", {}, "FI_PROVIDER", "ends the value at the semicolon",
         'export FI_PROVIDER="verbs;ofi_rxm"\nx\n'),
        ("export CCL_ALLREDUCE=ring:0-16384;2d:16385-max\nx\n", {}, "CCL_ALLREDUCE", "ends the value at the semicolon",
         'export CCL_ALLREDUCE="ring:0-16384;2d:16385-max"\nx\n'),
        ("CCL_ALLREDUCE='Ring:0-9; 2d:10-max'\n", {}, "CCL_ALLREDUCE", "a blank", 'CCL_ALLREDUCE="ring:0-9;2d:10-max"\n'),
        ("CCL_WORKER_AFFINITY=3\nCCL_WORKER_COUNT=2\n", {"ppn": 2}, "CCL_WORKER_AFFINITY", "4 are needed", None),
        ("CCL_WORKER_AFFINITY=3,4\n", {}, "CCL_WORKER_AFFINITY", "CCL_WORKER_COUNT is not set", None),
        ("CCL_WORKER_COUNT=4\n", {"cores": 2}, "CCL_WORKER_COUNT", "is 4 and a rank is pinned to 2 cores", None),
        ("FI_PROVIDER=shm\n", {"hosts": "2"}, "FI_PROVIDER", "reaches no other host", None),
        ("mpirun -hosts a:2,b:2 -genv FI_PROVIDER shm x\n", {}, "FI_PROVIDER", "and the job has 2", None),
        ("FI_TCP_IFACE=lo\n", {}, "FI_TCP_IFACE", "reaches no other host", None),
        ("I_MPI_PIN=0\n", {}, "I_MPI_PIN", "the same last cores", None),
        ("CCL_ATL_TRANSPORT=ofi\nCCL_ALLREDUCE=direct\n", {}, "CCL_ALLREDUCE", "MPI's own", None),
        ("CCL_FUSION=0\nCCL_FUSION=1\n", {}, "CCL_FUSION", "was '0' in line 1", None),
        ("CCL_ATL_RMA=1\n", {}, "CCL_ATL_RMA", "is not read any more", None),
    ],
)  # fmt: skip
def test_lint(text: str, options: dict, key: str, said: str, fixed: str | None) -> None:
    (found,) = oneccl.lint(text, options)
    assert found.key == key
    assert said in found.message
    assert found.safe == (fixed is not None)
    assert found.mend
    assert oneccl.fix(text, options) == (fixed or text)
    assert fixed is None or oneccl.lint(fixed, options) == []


@pytest.mark.parametrize(
    "text",
    [
        SCRIPT.replace("CCL_WORKER_COUNT=2", ""),
        "CCL_ZE_IPC_EXCHANGE=sockets\nCCL_SYCL_ALLREDUCE_TMP_BUF=1\n",
        "# CCL_FUSION=yes\n",
        "export CCL_WORKER_COUNT=$N CCL_YIELD=${Y:-pause}\nx\n",
        "FI_PROVIDER=verbs;ofi_rxm\n",  # an env file that no shell need read
        "FI_PROVIDER=shm\n",
        "mpirun -n 2 -genv FI_PROVIDER shm x\n",
        "CCL_WORKER_AFFINITY=2,3\nmpirun -ppn 2 x\n",
    ],
)
def test_lint_lets_be_what_is_right(text: str) -> None:
    assert oneccl.lint(text, {}) == []


def test_ranks_and_hosts_are_read_from_the_file() -> None:
    text = "#!/bin/sh\n#SBATCH --nodes=4\n#SBATCH --ntasks-per-node=8\nexport CCL_WORKER_AFFINITY=3 FI_PROVIDER=shm\nsrun x\n"
    found = {each.key: each.message for each in oneccl.lint(text, {})}
    assert "8 are needed: 8 ranks a host x 1" in found["CCL_WORKER_AFFINITY"]
    assert "the job has 4" in found["FI_PROVIDER"]
    assert {each.key for each in oneccl.lint(text, {"ppn": 1, "hosts": "1"})} == set()


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("job.sh", "export CCL_YIELD=sleep\n", True), ("job.env", "I_MPI_FABRICS=ofi\n", True),
        ("oneccl.env", "# none\n", True),
        ("job.sh", "mpirun -genv FI_PROVIDER tcp x\n", True), ("job.sh", "FI_PROVIDER=efa torchrun x\n", False),
        ("job.sh", "mpirun -n 2 x\n", False), ("a.json", '{"CCL_YIELD": 1}', False), ("a.py", "CCL_YIELD=1\n", False),
        ("job.sh", "# CCL_YIELD=1\n", False),
    ],
)  # fmt: skip
def test_matches(name: str, text: str, expected: bool) -> None:
    assert oneccl.matches(name, text) is expected


# The files in use

RICH = setting(
    provider="tcp", fabrics="ofi", algorithm_small="recursive_doubling", algorithm_large="ring", pinning="core", fusion=True,
    **{"yield": "sched_yield"},
)  # fmt: skip
# Ranks write at the same time: each its line at once.
SHOW = (
    "import os, sys; wanted = sys.argv[1].split(','); own = {k: v for k, v in os.environ.items() if k in wanted}; "
    "os.write(1, f'{sys.argv[1:]} {os.uname().nodename} {own}\\n'.encode())"
)
PINNED = ([[0], [1], [0], [1]], [[0], [0], [1], [1]], [[0, 1], [0, 1]] * 2)


def checked_scripts() -> list[str]:
    texts = []
    for config in (RICH, SPACE.default, setting(transport="ofi", shm=True, pinning="off", worker_offload="0")):
        for kind in KINDS:
            texts += [rendered(config, form, mpi=kind) for form in ("script", "sbatch")]
            texts.append(rendered(config, "script", {}, mpi=kind, job_limit="90s"))
    unpinned = {**RICH, "pinning": "default"}
    texts += [rendered(unpinned, "script", {**TWO_HOSTS, "pins": pins}, mpi=kind) for pins in PINNED for kind in KINDS]
    return texts


@pytest.mark.system
def test_scripts_pass_shellcheck(tmp_path: Path) -> None:
    if shutil.which("shellcheck") is None:
        pytest.skip("needs shellcheck")
    paths = []
    for number, text in enumerate(checked_scripts()):
        paths.append(tmp_path / f"{number}.sh")
        paths[-1].write_text(text)
    done = subprocess.run(["shellcheck", "-S", "style", *paths], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout


def test_scripts_are_scripts(tmp_path: Path) -> None:
    for text in checked_scripts():
        (tmp_path / "x.sh").write_text(text)
        subprocess.run(["sh", "-n", tmp_path / "x.sh"], check=True, timeout=60)
        assert oneccl.lint(text, {}) == []


_SRUN = """#!/bin/sh
echo "srun $*"
while :; do case $1 in -*) shift ;; *) break ;; esac; done
exec "$@"
"""


@pytest.mark.parametrize("kind", KINDS)
def test_batch_job_calls_srun(kind: str, tmp_path: Path) -> None:
    """Slurm itself isn't here; what its srun is called with is."""
    config = setting(provider="verbs", transport="ofi", pinning="numa")
    for name, text in (("srun", _SRUN), ("job", rendered(config, "sbatch", mpi=kind)), ("libpmi2.so", "")):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    env = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "I_MPI_PMI_LIBRARY": f"{tmp_path}/libpmi2.so", "CCL_FUSION": "1"}
    command = ["sh", tmp_path / "job", sys.executable, "-c", SHOW, "FI_PROVIDER,CCL_FUSION,I_MPI_PMI_LIBRARY", "a b"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, env=env)
    called, said = done.stdout.splitlines()[0], done.stdout.splitlines()[-1]
    plugin = "pmix" if kind == "openmpi" else "pmi2"
    assert called.startswith(f"srun --mpi={plugin} --kill-on-bad-exit=1 --export=ALL --cpu-bind=ldoms {sys.executable}")
    assert "'FI_PROVIDER': 'verbs;ofi_rxm'" in said
    assert "'a b'" in said
    assert "'CCL_FUSION'" not in said
    assert kind != "intel" or f"'I_MPI_PMI_LIBRARY': '{tmp_path}/libpmi2.so'" in said


@pytest.mark.system
@pytest.mark.parametrize("kind", KINDS)
def test_script_starts_ranks_with_the_setting(kind: str, tmp_path: Path) -> None:
    mpirun = str(folder(kind) / "bin" / "mpirun")
    machine = {"launcher": kind, "mpirun": mpirun, "ppn": 2}
    config = {**RICH, "pinning": "default"} if kind == "openmpi" else RICH
    script = tmp_path / "run_oneccl.sh"
    script.write_text(rendered(config, "script", machine, job_limit="100s"))
    script.chmod(0o755)
    wanted = {k: v for k, v in environment(config).items() if kind == "intel" or not k.startswith("I_MPI_")}
    command = [script, sys.executable, "-c", SHOW, ",".join(wanted), "two words", "a;b"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    lines = [line for line in done.stdout.splitlines() if line.startswith("['")]
    assert len(lines) == 2, done.stdout
    for line in lines:
        assert "'two words', 'a;b'" in line
        assert eval(line[line.index("{") :]) == wanted
    refused = subprocess.run([script], capture_output=True, text=True, timeout=60, check=False)
    assert (refused.returncode, refused.stderr) == (2, f"usage: {script} PROGRAM [ARGUMENT ...]\n")


@pytest.mark.system
@pytest.mark.parametrize(("kind", "transport"), [("intel", "mpi"), ("intel", "ofi"), ("mpich", "mpi"), ("openmpi", "ofi")])
def test_script_brings_oneccl_its_setting(kind: str, transport: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    prefix = Path(sys.prefix)
    library = prefix / "lib" / "libccl.so.2"
    if not library.exists():
        pytest.skip("needs oneCCL (pip install '.[oneccl]')")
    machine = {"launcher": kind, "mpirun": str(folder(kind) / "bin" / "mpirun"), "ppn": 2}
    config = setting(transport=transport, algorithm_small="ring", **{"yield": "sched_yield"})
    script = tmp_path / "run_oneccl.sh"
    script.write_text(rendered(config, "script", machine, job_limit="100s"))
    monkeypatch.setenv("CCL_FUSION", "1")  # of the shell, and no part of the setting
    where = {"PYTHONPATH": ROOT, "LD_LIBRARY_PATH": prefix / "lib", "CCL_ROOT": prefix, "I_MPI_ROOT": prefix}
    program = [sys.executable, ROOT / "tests" / "data" / "oneccl" / "allreduce.py", library, tmp_path / "id"]
    command = ["sh", script, "env", *(f"{name}={value}" for name, value in where.items()), *program]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=120, check=False)
    assert done.stdout.count("sum 0 {3.0}") == 2, done.stdout + done.stderr
    for name, value in environment(config).items():
        changed = f"value of {name} changed to be {value} "
        assert changed in done.stdout or (name, value) == ("CCL_ATL_TRANSPORT", "mpi"), done.stdout
    assert "CCL_FUSION" not in done.stdout


@pytest.mark.system
@pytest.mark.parametrize("kind", KINDS)
def test_script_ends_a_job_at_its_limit(kind: str, tmp_path: Path) -> None:
    machine = {"launcher": kind, "mpirun": str(folder(kind) / "bin" / "mpirun"), "ppn": 2}
    script = tmp_path / "run_oneccl.sh"
    script.write_text(rendered(SPACE.default, "script", machine, job_limit="2s"))
    seconds = f"{300 + os.getpid() / 1e7:.7f}"
    done = subprocess.run(["sh", script, "sleep", seconds], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode != 0 or kind == "mpich"  # which says 0 now and then
    deadline = time.monotonic() + 60
    while any(seconds in line for line in _commands()):
        assert time.monotonic() < deadline, "the ranks are still there"
        time.sleep(0.1)


def _commands() -> Iterator[str]:
    for process in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            yield process.read_bytes().replace(b"\0", b" ").decode(errors="replace")


@pytest.mark.system
@pytest.mark.root
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("pins", [[], PINNED[1]], ids=["mpi", "pinned"])
def test_script_on_two_hosts(kind: str, pins: list[list[int]], two_hosts: Rig, tmp_path: Path) -> None:
    machine = {**TWO_HOSTS, "launcher": kind, "mpirun": str(folder(kind) / "bin" / "mpirun"), "pins": pins}
    config = setting(algorithm_small="ring", **{"yield": "sched_yield"})
    script = tmp_path / "run_oneccl.sh"
    script.write_text(rendered(config, "script", machine, job_limit="100s"))
    (tmp_path / "agent").write_text(f'#!/bin/sh\nexec {shlex.join(two_hosts.ssh)} "$@"\n')
    (tmp_path / "agent").chmod(0o755)
    agent = {
        "intel": ("I_MPI_HYDRA_BOOTSTRAP_EXEC",),
        "mpich": ("HYDRA_LAUNCHER_EXEC",),
        "openmpi": ("OMPI_MCA_plm_rsh_agent", "PRTE_MCA_plm_ssh_agent"),
    }[kind]
    program = (
        "import os; e = os.environ; cores = sorted(os.sched_getaffinity(0)); "
        'os.write(1, f\'rank {os.uname().nodename} {e["CCL_YIELD"]} {e["FI_TCP_IFACE"]} {cores}\\n\'.encode())'
    )
    words = ["env", *(f"{name}={tmp_path}/agent" for name in agent), "sh", script, sys.executable, "-c", program]
    said = two_hosts[0].run(*words, limit=120)
    ranks = sorted(line.split() for line in said.splitlines() if line.startswith("rank "))
    assert [rank[1:4] for rank in ranks] == [[host, "sched_yield", "e0"] for host in ("hbA", "hbA", "hbB", "hbB")], said
    if pins and kind == "intel":
        assert [rank[4] for rank in ranks] == ["[0]", "[0]", "[1]", "[1]"]
