"""Files of CPU inference: what is written reads back, lints clean and starts each rank on its own cores."""

from __future__ import annotations

import itertools
import random
import re
import shutil
import subprocess
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from support.sysfs import SHAPES, shaped

from runners.topology import Topology
from runners.xft.known_models import KNOWN
from runners.xft.layout import Layout
from runners.xft.limits import limits
from runners.xft.model import Demand
from runners.xft.plan import Plan
from spaces.space import Config
from spaces.xft import SPACE, XFT, Software, for_job
from tuner.errors import WrongUsage
from tuner.exporters import shell, xft
from tuner.exporters.xft.calls import calls
from tuner.recommendation import Gain, Recommendation

DEMAND = Demand(KNOWN["llama-2-7b"], "int8")
TORCH = Software("torch", "gomp", "/opt/lib/libiomp5.so", ccl=False)
FOUR = tuple(f"192.0.2.{number}" for number in range(1, 5))


def setting(**values: bool | int | str) -> dict[str, bool | int | str]:
    return {**SPACE.default, **values}


def machine(hosts: dict[str, Topology], software: Software = XFT, **more: Any) -> dict[str, Any]:
    return {"plan": Plan(hosts, DEMAND, software).json(), "launcher": "intel", **more}


def answer(config: Config, told: dict[str, Any], **fields: Any) -> Recommendation:
    given = {"engine": "xft", "decision": "adopt", "gain": Gain(1.31, 1.24, 1.39, 0.9), **fields}
    return Recommendation(
        "study-1", "xft", given.pop("engine"), given.pop("decision"), config, SPACE.default, given.pop("gain"), "r", {}, {},
        machine=told, **given,
    )  # fmt: skip


def rendered(
    config: Config, told: dict[str, Any], format: str = "script", fields: dict[str, Any] | None = None, **options: Any
) -> str:
    (text,) = xft.render(answer(config, told, **(fields or {})), format, options).values()
    return text


def of_shape(shape: str, software: Software = XFT, names: tuple[str, ...] = ("localhost",)) -> dict[str, Any]:
    return machine(dict.fromkeys(names, shaped(shape)), software)


@cache
def some(shape: str, software: Software, hosts: int = 1) -> list[Config]:
    """A few settings that these hosts can have."""
    names = [f"192.0.2.{number}" for number in range(1, hosts + 1)]
    space = for_job(SPACE, limits(dict.fromkeys(names, shaped(shape)), DEMAND, software))
    return space.pool(random.Random(7), 300)[:6]


# Scripts


def test_a_segment_for_each_rank() -> None:
    text = rendered(setting(), of_shape("quad", names=("a", "b")))
    assert text.endswith(
        '    -host a -n 1 env OMP_NUM_THREADS=48 numactl --all -C 0-47 -m 0 "$@" : \\\n'
        '    -host a -n 1 env OMP_NUM_THREADS=48 numactl --all -C 48-95 -m 1 "$@" : \\\n'
        '    -host b -n 1 env OMP_NUM_THREADS=48 numactl --all -C 0-47 -m 0 "$@" : \\\n'
        '    -host b -n 1 env OMP_NUM_THREADS=48 numactl --all -C 48-95 -m 1 "$@"\n'
    )
    assert "export XFT_ONECCL=1" in text


def test_one_rank_here_needs_no_mpi() -> None:
    text = rendered(setting(), of_shape("general"))
    assert text.endswith('exec env OMP_NUM_THREADS=48 \\\n    numactl --all -C 0-47 \\\n    "$@"\n')
    assert "mpirun" not in text


@pytest.mark.parametrize("mpi", ["intel", "mpich", "openmpi"])
@pytest.mark.parametrize("shape", ["cloud", "uneven", "hbm-quad", "snc2"])
def test_the_script_starts_what_was_laid_out(shape: str, mpi: str) -> None:
    """Read back as anybody's script is read: hosts, cores, memory and threads of every rank."""
    names = ("a", "b")
    for config in some(shape, XFT, 2):
        plan = Plan(dict.fromkeys(names, shaped(shape)), DEMAND, XFT)
        layout = plan.layout(config)
        assert isinstance(layout, Layout)
        found = calls(rendered(config, of_shape(shape, names=names), mpi=mpi))
        assert [(call.host, call.cpus, call.threads) for call in found] == [
            (rank.host, rank.cpus, rank.threads) for rank in layout.ranks
        ]
        assert [call.memory for call in found] == [
            None if rank.memory.policy == "none" else (rank.memory.policy, rank.memory.nodes) for rank in layout.ranks
        ]


def test_open_mpi_hands_variables_on_in_every_segment() -> None:
    text = rendered(setting(wait_policy="passive"), of_shape("quad", names=("a", "b")), mpi="openmpi")
    segments = [line for line in text.splitlines() if "numactl" in line]
    assert len(segments) == 4
    assert all("-x OMP_WAIT_POLICY " in line and "-x XFT_ONECCL " in line for line in segments)
    assert "--bind-to none" in text
    assert "--host a:2,b:2" in text
    assert "I_MPI_JOB_TIMEOUT" not in text


@pytest.mark.parametrize(
    ("mpi", "expected"), [("intel", "a:2\nb:2\n"), ("mpich", "a:2\nb:2\n"), ("openmpi", "a slots=2\nb slots=2\n")]
)
def test_hostfiles_are_of_the_mpis_own_form(mpi: str, expected: str) -> None:
    assert rendered(setting(), of_shape("quad", names=("a", "b")), "hostfile", mpi=mpi) == expected


def test_hosts_of_different_shape() -> None:
    text = rendered(setting(ranks=1), machine({"a": shaped("general"), "b": shaped("cloud")}))
    assert [len(call.cpus or ()) for call in calls(text)] == [48, 48]
    assert calls(text)[0].cpus != calls(text)[1].cpus


def test_mixed_weights_have_their_nodes_in_the_segment() -> None:
    told = {"plan": Plan({"a": shaped("hbm-quad"), "b": shaped("hbm-quad")}, replace(DEMAND, dtype="bf16_int8"), XFT).json()}
    text = rendered(setting(), told)
    assert "env OMP_NUM_THREADS=56 FIRST_TOKEN_WEIGHT_LOCATION=0 NEXT_TOKEN_WEIGHT_LOCATION=2 numactl" in text


def test_values_are_commented_with_their_worth() -> None:
    gains = {"wait_policy": {"ratio": 2.5, "low": 2.1, "high": 2.9}, "ranks": 1.4}
    text = rendered(setting(wait_policy="passive", ranks=4), of_shape("quad"), fields={"evidence": {"gains": gains}})
    assert "# what threads do that wait for work: 2.50x (2.10x to 2.90x)\nexport OMP_WAIT_POLICY=passive\n" in text
    assert "# ranks of a host: 1.40x\n" in text
    assert "# 1.31x the performance of the baseline (1.24x to 1.39x with 90% confidence).\n" in text


def test_a_stand_in_is_said() -> None:
    assert "not with xFT" in rendered(setting(), of_shape("quad"), fields={"engine": "torch"})
    assert "not with xFT" not in rendered(setting(), of_shape("quad"))


def test_keep_is_said() -> None:
    text = rendered(setting(), of_shape("quad"), fields={"decision": "keep"})
    assert "# Nothing beat the baseline, what xFT's own scripts choose.\n" in text


def test_nothing_that_a_host_or_model_is_called_leaves_its_comment() -> None:
    evil = replace(shaped("quad"), hostname="x\nrm -rf /", model="y\nreboot")
    told = machine({"a": evil, "b": evil})
    text = rendered(setting(), told, fields={"options": {"model": "z\nreboot"}})
    assert not [line for line in text.splitlines() if re.match(r"\s*(rm|reboot)", line)]


@pytest.mark.parametrize("host", ["a b", "a;reboot", "-x", "$(id)", "a\nb"])
def test_hosts_that_are_no_names_are_refused(host: str) -> None:
    with pytest.raises(WrongUsage, match="the study's hosts can't be used"):
        rendered(setting(), of_shape("quad", names=(host, "b")))


def test_a_limit() -> None:
    assert "limit=${LIMIT:-90}" in rendered(setting(), of_shape("quad"), job_limit="90s")
    with pytest.raises(WrongUsage, match="--job-limit soon"):
        rendered(setting(), of_shape("quad"), job_limit="soon")


@pytest.mark.parametrize(("options", "message"), [({"mpi": "lam"}, "--mpi lam: must be intel, mpich or openmpi")])
def test_options_that_cannot_be(options: dict[str, Any], message: str) -> None:
    with pytest.raises(WrongUsage, match=message):
        rendered(setting(), of_shape("quad"), **options)


def test_a_setting_that_the_hosts_cannot_have() -> None:
    with pytest.raises(WrongUsage, match="can't be laid out on the study's hosts: 8 ranks have 2 cores"):
        rendered(setting(ranks=8), of_shape("small"))


def test_a_study_whose_plan_is_broken() -> None:
    with pytest.raises(WrongUsage, match="the study's hosts can't be used"):
        rendered(setting(), {"plan": {"hosts": 3}})


def test_no_format_of_that_name() -> None:
    with pytest.raises(WrongUsage, match="--format x: there is no such format"):
        rendered(setting(), of_shape("quad"), "x")


# Slurm


def test_a_batch_job_of_hosts_that_are_alike() -> None:
    text = rendered(setting(), of_shape("quad", names=FOUR[:2]), slurm=True, job_limit="2h")
    assert "#SBATCH --nodes=2\n#SBATCH --ntasks-per-node=2\n#SBATCH --exclusive\n#SBATCH --time=120:00\n" in text
    assert '1) exec env OMP_NUM_THREADS=48 numactl --all -C 48-95 -m 1 "$@" ;;' in text
    assert "--cpu-bind=none" in text
    assert "nodelist" not in text
    (name,) = xft.render(answer(setting(), of_shape("quad")), "script", {"slurm": True})
    assert name == "run_xft.sbatch"


def test_a_batch_job_of_hosts_that_differ() -> None:
    text = rendered(setting(), machine({"a": shaped("quad"), "b": shaped("snc2")}), slurm=True)
    assert "#SBATCH --ntasks=6\n" in text
    assert "#SBATCH --nodelist=a,b\n" in text
    assert 'b/3) exec env OMP_NUM_THREADS=24 numactl --all -C 72-95 -m 3 "$@" ;;' in text


def test_every_task_starts_on_its_own_cores(tmp_path: Path) -> None:
    """srun is replaced by a program that runs each task as Slurm does: with its number and the name of its host."""
    text = rendered(setting(), machine({"a": shaped("quad"), "b": shaped("snc2")}, TORCH), slurm=True, mpi="mpich")
    (tmp_path / "run_xft.sbatch").write_text(text)
    srun = tmp_path / "srun"
    srun.write_text(
        "#!/bin/sh\nwhile [ \"${1#-}\" != \"$1\" ]; do shift; done\n"
        "for place in a/0 a/1 b/0 b/1 b/2 b/3; do\n"
        "    SLURMD_NODENAME=${place%/*} SLURM_LOCALID=${place#*/} \"$@\"\ndone\n"
    )  # fmt: skip
    numactl = tmp_path / "numactl"
    numactl.write_text('#!/bin/sh\necho "$OMP_NUM_THREADS $*"\n')
    for program in (srun, numactl):
        program.chmod(0o755)
    done = subprocess.run(
        ["sh", str(tmp_path / "run_xft.sbatch"), "python", "serve me.py"],
        capture_output=True, text=True, check=True, timeout=60, env={"PATH": f"{tmp_path}:/usr/bin:/bin"},
    )  # fmt: skip
    assert done.stdout.splitlines() == [
        "48 --all -C 0-47 -m 0 python serve me.py",
        "48 --all -C 48-95 -m 1 python serve me.py",
        *(f"24 --all -C {24 * i}-{24 * i + 23} -m {i} python serve me.py" for i in range(4)),
    ]


# env files


def test_the_env_file_reads_back() -> None:
    for shape, software in itertools.product(("quad", "cloud", "small"), (XFT, TORCH)):
        for config in some(shape, software):
            text = rendered(config, of_shape(shape, software), "env")
            options = {"engine": software.engine}
            assert xft.present(text, options) == config, text
            assert xft.lint(text, {}) == []
            assert shell.is_env_file(text)
            merged = xft.merge(text, answer(config, of_shape(shape, software)), {})
            assert (merged.text, merged.notes) == (text, ())


def test_merging_takes_out_what_the_recommendation_leaves_alone() -> None:
    text = "# mine\nOMP_WAIT_POLICY=active\nOTHER=1\n"
    merged = xft.merge(text, answer(setting(openmp="iomp5", blocktime="1"), of_shape("quad", TORCH)), {})
    assert merged.text.startswith("# mine\n")
    assert "OTHER=1\n" in merged.text
    assert "KMP_BLOCKTIME=1\n" in merged.text
    assert "OMP_WAIT_POLICY" not in merged.text
    assert merged.notes == ("removed OMP_WAIT_POLICY=active: the recommendation leaves it alone",)


def test_merging_takes_out_oneccls_variables_where_it_was_measured_without() -> None:
    text = "CCL_WORKER_COUNT=4\nCCL_LOG_LEVEL=info\nLD_PRELOAD=libiomp5.so\n"
    merged = xft.merge(text, answer(setting(), of_shape("quad")), {})
    assert "CCL_WORKER_COUNT" not in merged.text
    assert "CCL_LOG_LEVEL=info\n" in merged.text
    assert "CCL_WORKER_COUNT=4\n" in xft.merge(text, answer(setting(), of_shape("quad", TORCH)), {}).text


def test_merging_into_a_script_leaves_its_ranks_or_refuses() -> None:
    told = of_shape("quad", TORCH)
    script = rendered(setting(), told)
    merged = xft.merge(script, answer(setting(wait_policy="passive"), told), {})
    assert "export OMP_WAIT_POLICY=passive\n" in merged.text
    assert [line for line in merged.text.splitlines() if "numactl" in line] == [
        line for line in script.splitlines() if "numactl" in line
    ]
    with pytest.raises(WrongUsage, match="other cores or memory than the recommendation"):
        xft.merge(script, answer(setting(ranks=4), told), {})


@pytest.mark.parametrize("text", ['{"a": 1}', "<x/>", "a\0b"])
def test_other_files_are_refused(text: str) -> None:
    with pytest.raises(WrongUsage, match="neither an env file"):
        xft.present(text, {})
    with pytest.raises(WrongUsage, match="neither an env file"):
        xft.merge(text, answer(setting(), of_shape("quad")), {})


# Whatever the setting


@pytest.mark.parametrize("shape", sorted(SHAPES))
def test_every_file_of_every_shape_lints_clean(shape: str) -> None:
    for software in (XFT, TORCH):
        for config in some(shape, software, 2)[:4]:
            told = of_shape(shape, software, FOUR[:2])
            for mpi, slurm in itertools.product(("intel", "openmpi"), (False, True)):
                text = rendered(config, told, mpi=mpi, slurm=slurm)
                assert xft.lint(text, {}) == [], text
                assert xft.matches("run.sh", text) or software is TORCH


@pytest.mark.skipif(shutil.which("shellcheck") is None, reason="needs shellcheck")
def test_scripts_pass_shellcheck(tmp_path: Path) -> None:
    files = []
    tolds = [
        of_shape("cloud"),
        of_shape("quad", TORCH, ("a", "b")),
        machine({"a": shaped("quad"), "b": shaped("snc2")}, iface="e0"),
        {},
    ]
    for number, (told, mpi, slurm) in enumerate(itertools.product(tolds, ("intel", "mpich", "openmpi"), (False, True))):
        config = setting(wait_policy="passive") if number % 2 else setting()
        file = tmp_path / f"{number}.sh"
        file.write_text(rendered(config, told, mpi=mpi, slurm=slurm, job_limit="1h"))
        files.append(file)
    done = subprocess.run(["shellcheck", *map(str, files)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
