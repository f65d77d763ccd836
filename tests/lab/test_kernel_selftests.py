"""The kernel's own selftests of bonding, with active-backup bonds that linkhold makes.

The scripts (tools/testing/selftests, GPL-2.0) are no part of this repository:
LINKHOLD_KERNEL_SELFTESTS names that folder of a kernel tree. A case that fails is run again with
bonds of the real ip; one that works with those, and fails with linkhold's once more, is a failure.
"""

from __future__ import annotations

import os
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from support.lab import Box, scenario
from support.selftest_ip import SelftestIp

if TYPE_CHECKING:
    from support.lab import Outcome
    from support.lab.host import Lab

VARIABLE = "LINKHOLD_KERNEL_SELFTESTS"
BONDING = "drivers/net/bonding"
NEEDED = (f"{BONDING}/*.sh", "net/forwarding/lib.sh", "net/lib.sh", "net/lib/sh/*.sh")
LIMIT_S = 1300
KSFT_SKIP = 4
VERDICT = re.compile(r"TEST: (.*?) +\[ *(\w+) *\]")
PANICKED = re.compile(r"\b(WARNING|BUG|Oops|general protection fault)\b.*:")

# Script and, where others of its tests are about other modes, the one of its tests to run.
# bond-break-lacpdu-tx.sh and mode-2-recovery-updelay.sh are about other modes altogether.
CASES = (
    ("bond-arp-interval-causes-panic.sh", ""),
    ("bond-eth-type-change.sh", "bond_test_successful_enslave_type_change"),
    ("bond-lladdr-target.sh", ""),
    ("bond_macvlan.sh", ""),
    ("bond_macvlan_ipvlan.sh", ""),
    ("bond_options.sh", "arp_validate"),
    ("bond_options.sh", "fail_over_mac"),
    ("bond_options.sh", "num_grat_arp"),
    ("bond_options.sh", "prio"),
    ("bond_options.sh", "vlan_over_bond"),
    ("dev_addr_lists.sh", "bond_cleanup_mode1"),
    ("mode-1-recovery-updelay.sh", ""),
    ("option_prio.sh", ""),
)


@scenario(timeout_s=LIMIT_S)
def selftest(
    box: Box, files: dict[str, str], script: str, only: str, *, by_linkhold: bool
) -> dict[str, Any]:
    """Run one script as it is run in a kernel tree; its output is the scenario's own."""
    for name, text in files.items():
        file = box.tmp / "selftests" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
        file.chmod(0o755)
    tools = box.tmp / "bin"
    tools.mkdir()
    panic = Path("/proc/sys/kernel/panic")
    before = panic.read_text(encoding="ascii")
    with SelftestIp(tools) as ours:
        if not by_linkhold:
            (tools / "ip").unlink()
        code = subprocess.run(
            [f"./{script}"],
            cwd=box.tmp / "selftests" / BONDING,
            env={**os.environ, "PATH": ours.path, "TESTS": only},
            stdin=subprocess.DEVNULL,
            stderr=subprocess.STDOUT,
            check=False,
        ).returncode
    panic.write_text(before, encoding="ascii")  # one script sets it, for the whole guest
    return {"code": code, "done": ours.done, "refused": ours.refused, "wrong": ours.wrong}


CALLS = """
ip netns add far
ip -n far link add nic type veth peer name end
ip -n far link set end up
ip -n far link add dev bond0 up type bond mode 1 miimon 20 updelay 40 num_grat_arp 7 primary nic
ip netns exec far ip link set nic master bond0
ip -n far link set bond0 type bond active_slave nic
ip -n far -d link show bond0
ip -n far link set dev nic down nomaster
ip -n far link del bond0
ip link add bond1 type bond mode balance-rr
ip link set bond1 type bond mode active-backup arp_interval 30 arp_ip_target 192.0.2.1,192.0.2.2
ip link add bond1 type bond mode active-backup || echo "exit code $?"
ip -d link show bond1
ip link del bond1
ip link
"""


@scenario()
def calls(box: Box) -> dict[str, Any]:
    """Call the ip of selftests as their scripts do."""
    with SelftestIp(box.tmp) as ours:
        env = {**os.environ, "PATH": ours.path}
        shell = ["sh", "-ec", CALLS]
        said = subprocess.run(shell, env=env, capture_output=True, text=True, check=False)
    return {
        "done": ours.done,
        "refused": ours.refused,
        "wrong": ours.wrong,
        "said": said.stdout,
        "complained": said.stderr,
    }


def test_ip_of_selftests_makes_bonds_by_linkhold(lab: Lab) -> None:
    """Calls about active-backup bonds go to linkhold, in the right namespace; others do not."""
    told = lab.run(calls).value

    done = told["done"]
    assert [text.split(":")[0] for text in done] == [
        *("create bond bond0", "set bond0 up", "set nic into bond0", "set bond0"),
        *("set nic down, out of its bond", "remove bond0", "set bond1", "remove bond1"),
    ], told
    assert "num_peer_notif 7" in done[0]
    assert len(told["refused"]) == 1
    assert told["wrong"] == []
    shown = (
        *("active_slave nic miimon 20 updelay 40", "primary nic primary_reselect failure"),
        *("num_grat_arp 7", "arp_interval 30", "arp_ip_target 192.0.2.1,192.0.2.2"),
    )
    assert [words for words in shown if words not in told["said"]] == []
    assert "exit code 2" in told["said"]
    assert "EEXIST" in told["complained"]


@dataclass(frozen=True)
class Selftests:
    """The scripts of a kernel tree."""

    files: dict[str, str]

    def run(self, lab: Lab, script: str, only: str, *, by_linkhold: bool) -> Outcome:
        """Run one script in the lab."""
        return lab.run(
            selftest, files=self.files, script=script, only=only, by_linkhold=by_linkhold
        )


@pytest.fixture(scope="module")
def selftests() -> Selftests:
    """Return the scripts of the kernel tree that the environment names."""
    named = os.environ.get(VARIABLE, "")
    if not named:
        pytest.skip(f"{VARIABLE} names no tools/testing/selftests of a kernel tree")
    root = Path(named)
    if not (root / BONDING).is_dir():
        pytest.skip(f"{VARIABLE}: {root} has no {BONDING}")
    found = [file for pattern in NEEDED for file in root.glob(pattern)]
    return Selftests({str(f.relative_to(root)): f.read_text(encoding="utf-8") for f in found})


def _skipped(outcome: Outcome) -> bool:
    """Whether the script found that it cannot run here, as a whole or with each of its cases."""
    said = {verdict for _, verdict in VERDICT.findall(outcome.stdout)}
    return outcome.value["code"] == KSFT_SKIP or said == {"SKIP"}


def _failed(outcome: Outcome) -> set[str]:
    """Return the cases that the script calls failed, its exit code as one more."""
    named = {name for name, verdict in VERDICT.findall(outcome.stdout) if verdict == "FAIL"}
    return named | ({"exit code"} if outcome.value["code"] else set())


def _told(outcome: Outcome) -> str:
    return f"{outcome.describe()}\n{outcome.value}"


@pytest.mark.timeout(3 * LIMIT_S + 120)
@pytest.mark.parametrize(("script", "only"), CASES, ids=[" ".join(c).strip() for c in CASES])
def test_selftest(selftests: Selftests, lab: Lab, script: str, only: str) -> None:
    """The kernel's own test passes with bonds that linkhold made, as with those of the real ip."""
    text = selftests.files.get(f"{BONDING}/{script}")
    if text is None:
        pytest.skip(f"this kernel tree has no {script}")
    if only and f"\n{only}()" not in text:
        pytest.skip(f"{script} of this kernel tree has no test {only}")

    ours = selftests.run(lab, script, only, by_linkhold=True)

    print(_told(ours))
    assert not ours.value["wrong"], ours.value["wrong"]
    assert not [line for line in ours.kernel_log if PANICKED.search(line)], _told(ours)
    if _skipped(ours):
        pytest.skip(f"the script skips itself: {ours.stdout.strip()[-300:]}")
    assert ours.value["done"], _told(ours)
    failed = _failed(ours)
    if failed:
        control = selftests.run(lab, script, only, by_linkhold=False)
        alone = failed - _failed(control)
        if alone:  # the scripts wait for fixed times, which a busy machine may exceed once
            alone &= _failed(selftests.run(lab, script, only, by_linkhold=True))
            assert not alone, f"{sorted(alone)} fail with linkhold's bond only\n{_told(ours)}"
            pytest.skip(f"failed once and not again, which is timing: {sorted(failed)}")
        pytest.skip(f"fail with the real ip's bond too: {sorted(failed)}")
