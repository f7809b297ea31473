import tempfile
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runners.hosts import Host, hosts_for, parse_hosts
from runners.hosts.job import of_this_job, slurm_counts, slurm_nodes
from runners.runner import UsageError

DATA = Path(__file__).resolve().parents[2] / "data" / "hosts"
SECRET = "hunter2-do-not-show"


def outcome(given: str | Path) -> tuple[Host, ...] | UsageError:
    try:
        return parse_hosts(given)
    except UsageError as error:
        return error


def refused(given: str | Path) -> str:
    with pytest.raises(UsageError) as error:
        parse_hosts(given)
    assert error.value.option == "hosts"
    return str(error.value)


@pytest.mark.parametrize(
    ("given", "hosts"),
    [
        ("a", [Host("a")]),
        ("a,b:4", [Host("a"), Host("b", 4)]),
        (" a , b ", [Host("a"), Host("b")]),
        ("root@a:2,b", [Host("a", 2, "root"), Host("b")]),
        ("node[01-03,07],gpu1:2", [Host("node01"), Host("node02"), Host("node03"), Host("node07"), Host("gpu1", 2)]),
        ("node[9:11]", [Host("node9"), Host("node10"), Host("node11")]),
        ("192.0.2.7:3", [Host("192.0.2.7", 3)]),
        ("[2001:db8::1]:3,2001:db8::2", [Host("2001:db8::1", 3), Host("2001:db8::2")]),
        (
            "a\n# all\n\n b:2 # two\nc slots = 4 max_slots=8\nd max-slots=8 slots=3\n",
            [Host("a"), Host("b", 2), Host("c", 4), Host("d", 3)],
        ),
        ("a:2 ifname=ib0 binding=user:0,1\nb:1 user=tina\n", [Host("a", 2), Host("b", 1, "tina")]),
        ("worker-1 slots=8\nworker-2 slots=8", [Host("worker-1", 8), Host("worker-2", 8)]),
    ],
)
def test_lists_that_people_have(given: str, hosts: list[Host]) -> None:
    assert list(parse_hosts(given)) == hosts


def test_files_of_every_kind(tmp_path: Path) -> None:
    path = tmp_path / "my hosts é"
    path.write_bytes(b"\xef\xbb\xbfa:2\r\nb\r\n")
    assert parse_hosts(path) == parse_hosts(str(path)) == (Host("a", 2), Host("b"))


def test_the_inventory_of_the_case() -> None:
    hosts = parse_hosts(DATA / "inventory.ini")
    assert hosts == tuple(Host(f"192.0.2.{number}", 1, "root") for number in range(1, 5))
    assert "not-a-real-one" not in repr(hosts)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("-oProxyCommand=touch /tmp/x", "begins with '-'"),
        ("a\n-oProxyCommand=touch /tmp/x\n", "line 2: '-oProxyCommand…' begins with '-'"),
        ("a\nroot@-oX\n", "line 2: '-oX' begins with '-'"),
        ("a;b", "not a host's name"),
        ("a\n$(id)\n", "line 2: '$(id)' is not a host's name"),
        ("a\x07", "not a host's name"),
        ("a\nb\x1b[31m\n", "line 2"),
        ("a b", "not a host's name"),
        ("a\nb c\n", "line 2: there is a second word"),
        ("ä", "not a host's name"),
        ("4", "is a number; write the names"),
        ("a:0", "from 1 to 65536"),
        ("a:-1", "from 1 to 65536"),
        ("a:x", "from 1 to 65536"),
        ("a:99999999999", "from 1 to 65536"),
        ("a\nb slots=many\n", "line 2: slots must be a whole number"),
        ("a slots=4 max_slots=2\n", "max_slots=2 is less than slots=4"),
        ("a slotz=4\n", "'slotz…' is not known"),
        ("a,b,a", "'a' is named twice; write a:2"),
        ("a\nb\nA\n", "line 3: 'A': it is on line 1 already"),
        ("n[1-3]\nn2\n", "line 2: 'n2': it is on line 1 already"),
        ("", "a host's name is missing"),
        (",", "a host's name is missing"),
        ("# nothing\n\n", "no host is named there"),
        ("n[1-", "brackets don't match"),
        ("n[3-1]", "is empty; write the smaller end first"),
        ("n[x]", "is not a range"),
        ("n[1-999999999]", "more than 16384 hosts"),
        ("n[1-999][1-999]", "more than 16384 hosts"),
        ("300.1.1.1", "not an IPv4 address"),
        ("fe80::1%eth0", "names an interface"),
        ("1:2:3", "neither a host's name nor an IPv6 address"),
        ("hosts.txt", "there is no such file"),
        ("./nodes", "there is no such file"),
        ("hostfile", "there is no such file"),
        ("/", "this is a folder"),
        ("/dev/null", "this is not a file"),
    ],
)
def test_what_can_not_be_used_gets_a_sentence(given: str, words: str) -> None:
    said = refused(given)
    assert words in said
    assert said.startswith("--hosts ")
    assert all(letter.isprintable() for letter in said)


def test_files_that_are_no_lists(tmp_path: Path) -> None:
    binary, large, latin = tmp_path / "binary", tmp_path / "large", tmp_path / "latin"
    binary.write_bytes(b"\x7fELF\0\0")
    with large.open("wb") as file:
        file.truncate(5 << 20)
    latin.write_bytes(b"a\nb\nm\xfcller\n")
    assert "not a text file" in refused(binary)
    assert "larger than 4 MiB" in refused(large)
    assert "line 3 is not UTF-8" in refused(latin)
    assert "this is a folder" in refused(tmp_path)
    assert "no such file" in refused(tmp_path / "none")


def test_groups_ranges_and_who_is_nearer_wins() -> None:
    text = """
        lone ansible_user=own
        alias ansible_host=10.0.0.9 ansible_port=2200 slots=8
        [web]
        node[01:03] ansible_connection=ssh
        db-[a:b].example.com:2222
        [gpu]
        node02
        g1 ansible_user="in quotes"   # quoted badly for a user, hence refused below
        """
    lines = [line.strip() for line in text.replace('ansible_user="in quotes"', "ansible_user='quoted'").splitlines()]
    text = "\n".join([*lines, "[all:vars]", "ansible_user=everyone", "ansible_port=22", "[some:children]", "web", "gpu"])
    text += "\n[some:vars]\nansible_user=outer\nansible_port = 23\n[gpu:vars]\nansible_user=inner ; \n".replace(" ; ", "")
    assert parse_hosts(text) == (
        Host("lone", 1, "own", 22),
        Host("10.0.0.9", 8, "everyone", 2200),
        Host("node01", 1, "outer", 23),
        Host("node02", 1, "inner", 23),
        Host("node03", 1, "outer", 23),
        Host("db-a.example.com", 1, "outer", 2222),
        Host("db-b.example.com", 1, "outer", 2222),
        Host("g1", 1, "quoted", 23),
    )


def test_one_group_of_an_inventory(tmp_path: Path) -> None:
    path = tmp_path / "inventory.ini"
    path.write_text("[a]\nx\n[b]\ny\n[ab:children]\na\nb\n[c]\nz\n")
    assert [host.name for host in parse_hosts(f"{path}:ab")] == ["x", "y"]
    assert [host.name for host in parse_hosts(f"{path}:c")] == ["z"]
    assert "the groups are: a, b, ab, c" in refused(f"{path}:d")


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("[g]\nx\nx\n", "line 3: 'x' is on line 2 already"),
        ("[a:children]\nb\n", "line 2: the group 'b' of [a:children] is nowhere in the file"),
        ("[a:children]\nb\n[b:children]\na\n", "is below itself"),
        ("[a:children]\nall\n", "is below itself"),
        ("[g]\n-oX ansible_user=a\n", "line 2: '-oX' begins with '-'"),
        ("[g]\nx ansible_port=99999\n", "line 2: the port must be"),
        ("[g]\nx ansible_user={{ who }}\n", "line 2: ansible_user is a template"),
        ("[g]\nx ansible_host=;id\n", "line 2: ';id' is not a host's name"),
        ("[g]\nx ansible_user=-x\n", "line 2: the user's name"),
        ("[g]\nx ansible_connection=winrm\n", "line 2: ansible_connection must be ssh"),
        ("[g]\nx ansible_user='a\n", "line 2: a quote is not closed"),
        ("[g]\nx y\n", "line 2: what follows a host is written like"),
        ("[g]\nx\n[h]\ny ansible_host=x\n", "line 4: 'x': it is on line 2 already"),
    ],
)
def test_inventories_with_a_mistake(given: str, words: str) -> None:
    assert words in refused(given)


@pytest.mark.parametrize(
    "text",
    [
        f"[g]\nx ansible_ssh_pass={SECRET}\n",
        f"[g]\nx ansible_become_pass='{SECRET} x' ansible_password={SECRET}\n",
        f"[g]\nx\n[g:vars]\nansible_ssh_pass={SECRET}\nmy_token: {SECRET}\n",
        f"ansible_ssh_pass={SECRET}\n",
        f"x password={SECRET}\n",
        f"x ansible_ssh_pass='{SECRET}\n",
        f"x {SECRET}\n",
        f"x:{SECRET}\n",
        f"password:{SECRET}\n",
        f"password: {SECRET}\n",
        f"x slots={SECRET}\n",
        f"[g]\nx ansible_port={SECRET}\n",
        f"[all:vars]\n[g]\nansible_ssh_pass={SECRET}\n",
        f"[g]\nx {SECRET}\n",
        f'[g]\nx ansible_user="{SECRET}" ansible_ssh_pass="{SECRET}\n',
    ],
)
def test_a_secret_is_neither_kept_nor_shown(text: str) -> None:
    found = outcome(text)
    assert SECRET not in repr(found)
    assert SECRET not in str(found)
    assert not isinstance(found, UsageError) or SECRET not in repr(found.__cause__)


@settings(deadline=None)
@given(st.text(max_size=200) | st.text("ab[]:,-=.1 \n\t#@'\"$;\\", max_size=80))
def test_garbage_is_hosts_or_a_sentence(text: str) -> None:
    for given_as in (text, text + "\n", "[g]\n" + text, "[g:children]\n" + text, "[all:vars]\n" + text):
        found = outcome(given_as)
        if isinstance(found, UsageError):
            assert "\n" not in str(found)
            continue
        assert found
        for host in found:
            assert not host.name.startswith("-")
            assert not set(host.name) & set(" \t\n;|&$`'\"\\<>()*?!{}#%")
            assert 1 <= host.slots <= 65536


@settings(deadline=None)
@given(st.binary(max_size=300))
def test_garbage_files(data: bytes) -> None:
    with tempfile.NamedTemporaryFile() as file:
        file.write(data)
        file.flush()
        assert outcome(Path(file.name))


def test_slurms_list_in_a_job() -> None:
    environ = {"SLURM_JOB_NODELIST": "node[01-03,07],gpu1", "SLURM_TASKS_PER_NODE": "2(x3),1,4"}
    assert of_this_job(environ) == (
        Host("node01", 2),
        Host("node02", 2),
        Host("node03", 2),
        Host("node07", 1),
        Host("gpu1", 4),
    )
    assert of_this_job({"SLURM_NODELIST": "a[1-2]", "SLURM_NTASKS_PER_NODE": "3"}) == (Host("a1", 3), Host("a2", 3))
    assert of_this_job({"SLURM_JOB_NODELIST": "a"}) == (Host("a"),)
    assert slurm_nodes("rack[1-2]n[08-10]-ib") == [f"rack{rack}n{node}-ib" for rack in (1, 2) for node in ("08", "09", "10")]
    assert slurm_counts("1(x2),3") == [1, 1, 3]
    assert of_this_job({}) is None


def test_pbs_and_what_the_command_line_says_wins(tmp_path: Path) -> None:
    path = tmp_path / "nodes"
    path.write_text("a\na\nb\na\n")
    assert hosts_for("", {"PBS_NODEFILE": str(path)}) == (Host("a", 3), Host("b", 1))
    assert hosts_for("z", {"PBS_NODEFILE": str(path)}) == (Host("z"),)
    assert hosts_for(None, {}) is None


@pytest.mark.parametrize(
    "environ",
    [
        {"SLURM_JOB_NODELIST": "node[01-"},
        {"SLURM_JOB_NODELIST": "-oX"},
        {"SLURM_JOB_NODELIST": "a", "SLURM_TASKS_PER_NODE": "x"},
        {"PBS_NODEFILE": "/no/such/file"},
    ],
)
def test_a_batch_systems_list_that_can_not_be_read(environ: dict[str, str]) -> None:
    with pytest.raises(UsageError):
        of_this_job(environ)


@settings(deadline=None)
@given(st.text("ab[]0123456789-,:x()", max_size=60))
def test_garbage_in_a_job(text: str) -> None:
    for environ in ({"SLURM_JOB_NODELIST": text}, {"SLURM_JOB_NODELIST": "a[1-2]", "SLURM_TASKS_PER_NODE": text}):
        with suppress(UsageError):
            of_this_job(environ)
