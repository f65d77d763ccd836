"""The lab itself: what comes back from a scenario, what is contained, what is left."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from support.lab import Box, Scenario, ScenarioFailed, host, machine, scenario
from support.lab.host import Lab
from support.topology import ip, wait_until

BIG = 300_000


def _processes_of(text: str) -> set[int]:
    """Return the processes that have ``text`` in their command line, zombies left out."""
    found = set()
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if text in entry.read_text(errors="replace"):
                found.add(int(entry.parent.name))
        except OSError:
            continue
    return found


@scenario(timeout_s=10)
def echo(box: Box, what: object) -> object:
    """Print and return what it got."""
    print("printed", "inside")
    print("and an error", file=sys.stderr)
    return what


@scenario(timeout_s=10)
def raises(box: Box) -> None:
    """Fail like a scenario with a mistake."""
    print("before the mistake")
    Path("/dev/kmsg").write_text("a line for the kernel log\n")
    raise ValueError("the bond has no such member")


@scenario(timeout_s=10)
def asserts(box: Box) -> None:
    """Fail like a scenario whose expectation is wrong."""
    assert os.getpid() == 0, "expected on purpose"


@scenario(timeout_s=10)
def returns_a_socket(box: Box) -> object:
    """Return what JSON cannot carry."""
    return socket.socket()


@scenario(timeout_s=10)
def vanishes(box: Box) -> None:
    """End without a word."""
    os._exit(7)


@scenario(timeout_s=2)
def hangs(box: Box) -> None:
    """Wait for ever, with a child that would as well."""
    print("hanging")
    subprocess.run(["sleep", "1000"], check=True)


@scenario(timeout_s=10)
def running_sleeps(box: Box) -> int:
    """Count the processes called sleep that this scenario can see."""
    return len(_processes_of("sleep\0"))


@scenario(timeout_s=10)
def halts(box: Box) -> None:
    """Ask for the machine to be switched off, which in a PID namespace ends only that."""
    subprocess.run(["halt", "-f"], check=False)
    time.sleep(100)


@scenario(timeout_s=10)
def crashes_the_kernel(box: Box) -> None:
    """Take the whole guest down."""
    Path("/proc/sysrq-trigger").write_text("c")


@scenario(timeout_s=10)
def writes_on_the_channel(box: Box) -> str:
    """Print garbage where the harness talks."""
    for tty in ("/dev/ttyS0", "/dev/console"):
        Path(tty).write_bytes(b"\xff\nready\nanswer 1\nanswer 99\nno newline after this")
    return "still here"


@scenario(timeout_s=10)
def makes_traces(box: Box) -> None:
    """Leave a link, a namespace, a file and a sysctl behind."""
    ip("link", "add", "left0", "type", "dummy")
    ip("netns", "add", "left")
    box.sysctl("net.ipv4.tcp_keepalive_time", 77)
    for folder in ("/run", "/tmp", "/var/lib"):
        Path(folder, "left").write_text("here")


@scenario(timeout_s=10)
def sees_traces(box: Box) -> dict[str, object]:
    """Tell what a scenario before this one left."""
    return {
        "links": [name for _, name in socket.if_nameindex()],
        "namespaces": ip("netns"),
        "files": [
            folder for folder in ("/run", "/tmp", "/var/lib") if Path(folder, "left").exists()
        ],
        "keepalive": int(Path("/proc/sys/net/ipv4/tcp_keepalive_time").read_text()),
        "sysfs": sorted(path.name for path in Path("/sys/class/net").iterdir() if path.is_dir()),
        "log": box.kernel_log(),
    }


@scenario(modules=["no_such_module"])
def wants_a_module(box: Box) -> None:
    """Ask for a module that does not exist."""


@scenario(modules=["nf_tables", "dummy"], timeout_s=10)
def uses_nftables(box: Box) -> str:
    """Use a module that is not loaded at boot."""
    subprocess.run(["nft", "add", "table", "bridge", "t"], check=True)
    return subprocess.run(
        ["nft", "list", "tables"], check=True, text=True, capture_output=True
    ).stdout


# ---- what comes back -------------------------------------------------------------------------


def test_value_and_output_come_back(lab: Lab) -> None:
    """A scenario's value, standard output and standard error reach the test."""
    sent = {"active": "eth1", "lost": [1, 2.5, None, True], "text": "Zeichen \u00fc \u2713\n"}

    outcome = lab.run(echo, what=sent)

    assert outcome.value == sent
    assert outcome.stdout == "printed inside\n"
    assert outcome.stderr == "and an error\n"
    assert 0 < outcome.duration_s < 5


def test_large_values_travel_both_ways(lab: Lab) -> None:
    """Values far larger than a terminal's buffer come through whole."""
    text = "0123456789" * (BIG // 10)

    assert lab.run(echo, what=text).value == text


def test_exception_fails_the_test_with_its_traceback(lab: Lab) -> None:
    """A mistake inside fails the test with the guest's traceback, output and kernel log."""
    with pytest.raises(ScenarioFailed) as caught:
        lab.run(raises)

    text = str(caught.value)
    assert "tests/lab/test_lab.py::raises: error after" in text
    assert 'raise ValueError("the bond has no such member")' in text
    assert "ValueError: the bond has no such member" in text
    assert "before the mistake" in text
    assert caught.value.outcome.kernel_log == ("a line for the kernel log",)
    assert "cell.py" not in text


@pytest.mark.parametrize(
    ("scene", "said"),
    [
        (asserts, "AssertionError: expected on purpose"),
        (returns_a_socket, "TypeError: Object of type socket is not JSON serializable"),
        (vanishes, "ended without a result (exit code 7)"),
        (wants_a_module, "no_such_module"),
    ],
    ids=["assert", "no JSON", "vanished", "no module"],
)
def test_each_way_to_fail_is_told(lab: Lab, scene: Scenario, said: str) -> None:
    """Whatever way a scenario fails, the outcome is an error that says how."""
    outcome = lab.attempt(scene)

    assert outcome.status == "error"
    assert said in outcome.error


def test_modules_load_on_request(lab: Lab) -> None:
    """A scenario gets the kernel modules it names."""
    assert lab.run(uses_nftables).value == "table bridge t\n"


# ---- what is contained -----------------------------------------------------------------------


def test_hanging_scenario_ends_at_its_limit(lab: Lab) -> None:
    """A scenario that hangs ends at its limit with its stack; its children go; the guest stays."""
    boots = lab.boots

    outcome = lab.attempt(hangs)

    assert outcome.status == "timeout"
    assert "limit of 2 s" in outcome.error
    assert outcome.stdout == "hanging\n"
    assert "in hangs" in outcome.stderr
    assert outcome.duration_s == pytest.approx(2, abs=1)
    assert lab.run(running_sleeps).value == 0
    assert lab.boots == boots


def test_halt_ends_only_the_scenario(lab: Lab) -> None:
    """A scenario that switches the machine off ends itself alone."""
    boots = lab.boots

    assert lab.attempt(halts).status == "error"
    assert lab.run(echo, what=5).value == 5
    assert lab.boots == boots


def test_dead_guest_is_reported_and_replaced(lab: Lab) -> None:
    """A scenario that kills the guest is reported with the console; the next gets a new guest."""
    boots = lab.boots

    outcome = lab.attempt(crashes_the_kernel)

    assert outcome.status == "died"
    assert "the guest is gone" in outcome.error
    assert "Kernel panic" in outcome.error
    assert lab.run(echo, what=5).value == 5
    assert lab.boots == boots + 1


def test_garbage_on_the_channel_does_no_harm(lab: Lab) -> None:
    """Bytes that a scenario writes to the harness's own line are ignored."""
    assert lab.run(writes_on_the_channel).value == "still here"
    assert lab.run(echo, what="next").value == "next"


def test_scenarios_do_not_see_each_other(lab: Lab) -> None:
    """Links, namespaces, files, sysctls, messages of one scenario are gone for the next."""
    before = lab.run(sees_traces).value

    lab.run(makes_traces)
    after = lab.run(sees_traces).value

    assert before == after
    assert {**after, "keepalive": 0} == {
        "links": ["lo"],
        "namespaces": "",
        "files": [],
        "keepalive": 0,
        "sysfs": ["lo"],
        "log": [],
    }


# ---- what is left on the host ----------------------------------------------------------------


def test_close_leaves_nothing(tmp_path: Path) -> None:
    """After close no process, no folder and no namespace of the lab is left."""
    _skip_without_lab()
    with Lab(tmp_path) as lab:
        folder = lab.boot().folder
        lab.run(makes_traces)
        assert _processes_of(str(folder))

    assert not _processes_of(str(folder))
    assert not folder.exists()
    assert not Path("/run/netns/left").exists()


KILLED = """
import sys, time
from pathlib import Path
from support.lab.host import Lab
lab = Lab(Path(sys.argv[1]))
print(lab.boot().folder, flush=True)
time.sleep(100)
"""


def test_killed_test_run_leaves_nothing(tmp_path: Path) -> None:
    """A test run that dies of kill -9 takes its guest with it."""
    _skip_without_lab()
    environment = {**os.environ, "PYTHONPATH": str(machine.TESTS)}
    with subprocess.Popen(
        [sys.executable, "-c", KILLED, tmp_path], stdout=subprocess.PIPE, text=True, env=environment
    ) as run:
        assert run.stdout is not None
        folder = run.stdout.readline().strip()
        assert _processes_of(folder)
        run.kill()

    wait_until(lambda: not _processes_of(folder), "the guest's processes end")
    wait_until(lambda: not Path(folder).exists(), "the folder is removed")


def test_silent_guest_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A guest that answers nothing any more is ended after the limit and a grace."""
    _skip_without_lab()
    monkeypatch.setattr(host, "GRACE_S", 1.0)
    with Lab(tmp_path) as lab:
        folder = str(lab.boot().folder)
        for pid in _processes_of(f"uml_dir={folder}") - _processes_of("keeper.py"):
            os.kill(pid, signal.SIGSTOP)

        outcome = lab.attempt(hangs)

        assert outcome.status == "died"
        assert "fell silent" in outcome.error
        assert not _processes_of(folder)


def test_missing_user_mode_linux_is_a_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without linux.uml the lab says which package has it."""
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(machine.LabUnavailable, match=r"x86_64|apt-get install user-mode-linux"):
        Lab(tmp_path).boot()


def test_failed_boot_shows_the_console(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A guest that does not come up gives the last lines of its console as the reason."""
    _skip_without_lab()
    monkeypatch.setattr(machine, "command", lambda *_: ["sh", "-c", "echo ptrace: no; exit 1"])

    with pytest.raises(machine.LabUnavailable, match=r"does not boot here(.|\n)*ptrace: no"):
        Lab(tmp_path).boot()


def _skip_without_lab() -> None:
    try:
        machine.check()
    except machine.LabUnavailable as reason:
        pytest.skip(str(reason))


def test_old_consoles_go_though_another_process_takes_one(tmp_path: Path) -> None:
    """A console that is gone between listing and looking stops no guest; the newest are kept."""
    for age_s in range(host.CONSOLES_KEPT + 3):
        console = tmp_path / f"console-{age_s}.log"
        console.touch()
        os.utime(console, (1000 - age_s, 1000 - age_s))
    (tmp_path / "console-gone.log").symlink_to(tmp_path / "nothing")

    host.drop_old_consoles(tmp_path)

    kept = {file.name for file in tmp_path.iterdir()}
    assert kept == {f"console-{age_s}.log" for age_s in range(host.CONSOLES_KEPT)}
