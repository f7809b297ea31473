"""Values that no setting can have here are refused by the option's name."""

import pytest

from runners.oneccl.narrowed import check
from runners.runner import UsageError
from spaces.oneccl import SPACE, Limits, for_job

HERE = Limits(
    collective="allreduce",
    sizes=(1024,),
    element=4,
    hosts=1,
    ranks=2,
    local_ranks=2,
    cores_per_rank=1,
    default_transport="mpi",
    several_nics=False,
    refused={("provider", "verbs"): "libfabric on node1 finds no network for the provider verbs"},
)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"algorithm_small": "scatter"}, "--algorithm-small scatter: allreduce has no algorithm scatter; it has direct"),
        ({"provider": "verbs"}, "--provider verbs: libfabric on node1 finds no network"),
        ({"mnic": "local,global"}, "--mnic local,global: mnic"),
        ({"algorithm_small": "direct", "transport": "ofi"}, "the algorithm direct is MPI's own"),
    ],
)
def test_what_no_setting_can_have_is_refused(given: dict[str, str], said: str) -> None:
    with pytest.raises(UsageError) as caught:
        check(for_job(SPACE.narrow(given), HERE), for_job(SPACE, HERE))
    assert said in str(caught.value)


@pytest.mark.parametrize(
    "given",
    [{}, {"algorithm_small": "scatter,ring"}, {"provider": "verbs,tcp"}, {"worker_count": "8", "worker_offload": "0"},
     {"transport": "ofi"}, {"algorithm_large": "scatter"}],
)  # fmt: skip
def test_what_some_setting_can_have_is_not(given: dict[str, str]) -> None:
    """A size class that the job doesn't move takes any algorithm: it is never set."""
    check(for_job(SPACE.narrow(given), HERE), for_job(SPACE, HERE))
