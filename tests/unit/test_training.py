"""Which processes train and to which job they belong, from a /proc in a folder."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from linkhold.decide.training.marks import MOST_KEPT, launcher, option, program
from linkhold.survey.files import Reader
from linkhold.survey.training import COMMAND_BYTES, Finder, find

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from linkhold.model.jobs import TrainingProcess

RANK = {"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "10.0.0.1", "MASTER_PORT": "29500"}
STANDALONE = "0c1f8b9e-6f0a-4a53-9d55-0a7e6f1c2d3b"


class Proc:
    """A host's /proc below a folder."""

    def __init__(self, root: Path) -> None:
        self.reader = Reader(root)
        self._root = root

    def add(
        self,
        pid: int,
        command: str,
        *,
        parent: int = 1,
        env: Mapping[str, str] | None = None,
        comm: str = "python",
        kernel: bool = False,
        rss_bytes: int = 0,
    ) -> Path:
        """Make a process that started at tick 1000 + pid."""
        folder = self._root / f"proc/{pid}"
        (folder / "fd").mkdir(parents=True, exist_ok=True)
        (folder / "ns").mkdir(exist_ok=True)
        if not (folder / "ns/net").is_symlink():
            (folder / "ns/net").symlink_to("net:[4026531840]")
        fields = ["0"] * 50
        fields[0], fields[1], fields[6] = "S", str(parent), str(0x00200000 if kernel else 0)
        fields[19], fields[21] = str(1000 + pid), str(rss_bytes // 4096)
        (folder / "stat").write_text(f"{pid} ({comm}) {' '.join(fields)}\n")
        (folder / "status").write_text("Name:\tpython\nUid:\t1000\t1000\t1000\t1000\n")
        (folder / "cmdline").write_text("".join(f"{word}\0" for word in command.split()))
        variables = {"PATH": "/bin", **(env or {})}
        (folder / "environ").write_text("".join(f"{k}={v}\0" for k, v in variables.items()))
        return folder

    def found(self) -> dict[int, TrainingProcess]:
        """Return what trains, by pid."""
        return {one.pid: one for one in find(self.reader).processes}


@pytest.fixture
def proc(tmp_path: Path) -> Proc:
    """An empty host."""
    return Proc(tmp_path)


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("/venv/bin/python3.11 /venv/bin/torchrun --nnodes 2 train.py", "torchrun"),
        ("python -u -m torch.distributed.run train.py", "torchrun"),
        ("python -m torch.distributed.launch --nproc_per_node 8 train.py", "torchrun"),
        ("python /x/site-packages/torch/distributed/run.py train.py", "torchrun"),
        ("python /venv/bin/accelerate launch train.py", "accelerate"),
        ("python /venv/bin/accelerate config", ""),
        ("python -X dev -m deepspeed.launcher.launch train.py", "deepspeed"),
        ("/usr/bin/mpirun -np 8 python train.py", "mpirun"),
        ("bash -c torchrun", ""),
        ("vim torchrun", ""),
    ],
)
def test_launchers_are_known_by_their_command(command: str, name: str) -> None:
    """By script, module or binary; not by a word somewhere among the arguments."""
    assert launcher(command.split()) == name


def test_command_lines_are_read_as_python_reads_them() -> None:
    """Options of the interpreter, with and without a value, come before the program."""
    assert program(["python", "-W", "ignore", "-um", "pkg.mod", "-m", "x"]).name == "pkg.mod"
    assert program(["python3.12", "-u", "/a/train.py", "--x"]).arguments == ("--x",)
    assert program(["python", "-c", "import x"]).code == "import x"
    assert program(()).name == ""


def test_options_are_read_as_argparse_does() -> None:
    """``-`` and ``_`` alike, value after ``=`` or as the next word, the last one counts."""
    words = ["--ddp-timeout", "10", "--ddp_timeout=20", "--other", "3"]

    assert option(words, "--ddp_timeout") == "20"
    assert option(words, "--timeout") is None
    assert option((), "--timeout") is None


@pytest.mark.parametrize(
    "command",
    ["python /v/bin/pytest -q --timeout 120", "python -m pytest", "python -m unittest t"],
)
def test_tests_of_torch_are_no_training(proc: Proc, command: str) -> None:
    """A test runner has PyTorch loaded as what it tests; started as a rank it counts."""
    for pid, env in ((10, {}), (11, RANK)):
        folder = proc.add(pid, command, env=env, rss_bytes=200 << 20)
        (folder / "maps").write_text("7f00-7f01 r-xp 0 08:01 7 /v/torch/lib/libtorch_cpu.so\n")

    assert list(proc.found()) == [11]


def test_a_job_of_torchrun_is_one(proc: Proc) -> None:
    """Launcher, ranks and DataLoader workers are one job, each in its role; shells are none."""
    torch = {**RANK, "TORCHELASTIC_RUN_ID": STANDALONE}
    proc.add(5, "bash run.sh", env=RANK, comm="bash")
    proc.add(10, "python /v/bin/torchrun --standalone t/train.py", parent=5, comm="pt_elastic")
    proc.add(11, "python -u t/train.py", parent=10, env=torch)
    proc.add(12, "python -u t/train.py", parent=10, env={**torch, "RANK": "1"})
    proc.add(13, "python -u t/train.py", parent=11, env=torch, comm="pt_data_worker")
    proc.add(14, "wandb-core --pid 11", parent=11, env=torch, comm="wandb-core")

    found = proc.found()

    assert sorted(found) == [10, 11, 12, 13, 14]
    assert {one.job for one in found.values()} == {"train.py@10"}
    assert {pid for pid, one in found.items() if one.is_launcher} == {10}
    assert {pid for pid, one in found.items() if one.is_worker} == {13, 14}
    assert {one.launcher for pid, one in found.items() if pid != 10} == {10}
    assert found[11].uid == 1000
    assert found[11].started == 1011
    assert found[11].namespace == 4026531840


@pytest.mark.parametrize(
    ("env", "job"),
    [
        ({"TORCHELASTIC_RUN_ID": "exp7"}, "train.py@exp7"),
        ({"SLURM_JOB_ID": "1234", "SLURM_PROCID": "0"}, "train.py@slurm1234"),
        ({"TORCHELASTIC_RUN_ID": "none"}, "train.py@10.0.0.1:29500"),
    ],
)
def test_jobs_have_names_that_people_know(proc: Proc, env: dict[str, str], job: str) -> None:
    """The script and what tells its runs apart: run id, Slurm's job, the meeting point."""
    proc.add(10, "python /data/train.py --lr 1", env={**RANK, **env})
    proc.add(11, "python /data/train.py --lr 1", env={**RANK, **env, "RANK": "1"})

    training = find(proc.reader)

    assert training.jobs == (job,)
    assert training.named("train.py") == training.named(job.split("@")[1]) == (job,)
    assert training.named("train") == ()


def test_two_runs_of_one_script_are_two_jobs(proc: Proc) -> None:
    """Launchers without a run id tell them apart."""
    for pid in (10, 20):
        proc.add(pid, "python torchrun train.py", comm="torchrun")
        proc.add(pid + 1, "python train.py", parent=pid, env=RANK)

    assert find(proc.reader).jobs == ("train.py@10", "train.py@20")


def test_general_launchers_count_with_training_below(proc: Proc) -> None:
    """One that starts something else is none of ours."""
    proc.add(10, "mpirun -np 2 python train.py", comm="mpirun")
    proc.add(11, "python train.py", parent=10, env={"OMPI_COMM_WORLD_RANK": "0"})
    proc.add(20, "mpirun -np 2 weather", comm="mpirun")
    proc.add(21, "weather", parent=20, env={"OMPI_COMM_WORLD_RANK": "0"}, comm="weather")

    found = proc.found()

    assert sorted(found) == [10, 11]
    assert found[10].is_launcher


def test_ranks_of_mp_spawn_are_no_workers(proc: Proc) -> None:
    """Without numbers in the environment only the name tells a DataLoader's worker."""
    env = {"MASTER_ADDR": "10.0.0.1"}
    proc.add(10, "python train.py", env=env)
    proc.add(11, "python -c spawn_main", parent=10, env=env)
    proc.add(12, "python -c spawn_main", parent=11, env=env, comm="pt_data_worker")

    assert {pid for pid, one in proc.found().items() if one.is_worker} == {12}


def test_secrets_are_not_kept(proc: Proc) -> None:
    """Only variables that configure training stay, whatever else a process was given."""
    secret = {"AWS_SECRET_ACCESS_KEY": "s", "HF_TOKEN": "s", "TORCH_API_KEY": "s", "HOME": "/root"}
    proc.add(10, "python train.py", env={**RANK, **secret, "AWS_MAX_ATTEMPTS": "3"})

    assert dict(proc.found()[10].env) == {**RANK, "AWS_MAX_ATTEMPTS": "3"}


def test_what_users_put_into_commands_is_bounded(proc: Proc) -> None:
    """Large commands and environments, of training and of others: little of each is kept."""
    for pid in range(10, 40):
        trains = RANK if pid % 2 else {}
        proc.add(pid, f"python {'x' * 300_000}", env={**trains, "NCCL_X": "y" * 300_000})
    finder = Finder()
    processes = finder.find(proc.reader).processes

    assert len(processes) == 15
    assert all(sum(map(len, one.env.values())) <= MOST_KEPT for one in processes)
    assert all(sum(map(len, one.words)) <= COMMAND_BYTES for one in processes)
    assert all(sum(map(len, read.words)) <= COMMAND_BYTES for read in finder._known.values())


def test_gpus_and_loaded_torch_give_away_what_nothing_else_does(proc: Proc, tmp_path: Path) -> None:
    """An open GPU, or PyTorch in a large Python; not a render node, not nvidia-smi."""
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev/nvidia0").touch()
    for pid, device, comm in (
        (10, "/dev/nvidia0", "trainer"),
        (11, "/dev/dri/renderD128", "firefox"),
        (12, "/dev/nvidia0", "nvidia-smi"),
    ):
        (proc.add(pid, comm, comm=comm) / "fd/3").symlink_to(device)
    maps = "7f00-7f01 r-xp 0 0 0 /x/torch/lib/libtorch_cpu.so\n"
    (proc.add(13, "python nb.py", rss_bytes=300 << 20) / "maps").write_text(maps)
    proc.add(14, "python other.py", rss_bytes=300 << 20)

    found = proc.found()

    assert {pid: one.why for pid, one in found.items()} == {
        10: ("has /dev/nvidia0 open",),
        13: ("has PyTorch loaded",),
    }


def test_kernel_threads_and_the_dead_are_passed_over(proc: Proc) -> None:
    """Neither has an environment that could be called hidden."""
    proc.add(2, "", kernel=True, env=RANK)
    folder = proc.add(10, "python train.py", env=RANK)
    (folder / "stat").write_text((folder / "stat").read_text().replace(" S ", " Z "))

    training = find(proc.reader)

    assert (training.processes, training.unread) == ((), 0)


def test_a_finder_reads_a_process_once_and_again_after_exec(proc: Proc) -> None:
    """By pid, start and name: what was read stays, exec(2) or a new process is read anew."""
    finder = Finder()
    folder = proc.add(10, "python train.py", env=RANK)
    assert [one.pid for one in finder.find(proc.reader).processes] == [10]

    (folder / "environ").write_text("")
    assert [one.pid for one in finder.find(proc.reader).processes] == [10]

    proc.add(10, "sleep 1", env=RANK, comm="sleep")
    assert finder.find(proc.reader).processes == ()
