"""What this computer must have for the lab, and the command line that starts the guest."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
TESTS = HERE.parents[1]
MODULES = Path("/usr/lib/uml/modules")
MEMORY_BYTES = 512 * 1024**2
DISK_BYTES = 256 * 1024**2


class LabUnavailable(Exception):
    """The lab cannot run on this computer; the text is the reason."""


def check() -> None:
    """Raise LabUnavailable when something is missing that a look can tell."""
    if sys.platform != "linux" or platform.machine() != "x86_64":
        raise LabUnavailable("the lab needs Linux on x86_64 (User-Mode Linux)")
    for program, package in (("linux.uml", "user-mode-linux"), ("modprobe", "kmod")):
        if shutil.which(program) is None:
            raise LabUnavailable(f"{program} is missing: apt-get install {package}")
    if not any(MODULES.glob("*/modules.dep")):
        raise LabUnavailable(f"no kernel modules in {MODULES}")
    if " " in f"{TESTS}{sys.executable}":
        raise LabUnavailable(f"a kernel command line cannot carry the blanks in {TESTS}")


def new_disk() -> int:
    """Return a disk with an empty file system: a file in memory that ends with its last user."""
    program = shutil.which("mke2fs", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
    if program is None:
        raise LabUnavailable("mke2fs is missing: apt-get install e2fsprogs")
    disk = os.memfd_create("lab-disk")
    os.truncate(disk, DISK_BYTES)
    make = [program, "-q", "-F", "-t", "ext4", f"/proc/self/fd/{disk}"]
    subprocess.run(make, check=True, pass_fds=[disk])
    return disk


def folder_for_memory() -> Path:
    """Make a folder for UML's memory file: it must be mappable as code and large enough."""
    for place in ("/dev/shm", tempfile.gettempdir()):
        if not Path(place).is_dir():
            continue
        about = os.statvfs(place)
        executable = not about.f_flag & os.ST_NOEXEC
        if executable and about.f_bavail * about.f_frsize > MEMORY_BYTES:
            return Path(tempfile.mkdtemp(prefix="linkhold-lab-", dir=place))
    raise LabUnavailable("no folder with 512 MiB free and without noexec for UML's memory")


def command(
    folder: Path, channel: int, disk: int | None = None, tap: int | None = None
) -> list[str]:
    """Return the command that boots the guest with its channel on file descriptor ``channel``.

    With ``disk``, the descriptor of a file with a file system, it boots systemd on that. With
    ``tap``, the descriptor of a TAP device, the guest has a NIC vec0 at its other end.
    """
    systemd = [] if disk is None else [f"ubd0=/proc/self/fd/{disk}", "LAB_SYSTEMD=1", "selinux=0"]
    nic = [] if tap is None else [f"vec0:transport=fd,fd={tap},vec=0"]
    environment = [f"TMPDIR={folder}", *_preload(folder)]
    return [
        *("env", *environment, "linux.uml", f"uml_dir={folder}", "mem=512M"),
        *("root=/dev/root", "rootfstype=hostfs", "rootflags=/", "ro", "init=/bin/sh"),
        *("con=null", "con0=fd:0,fd:1", "ssl=null", f"ssl0=fd:{channel},fd:{channel}"),
        *("quiet", "log_buf_len=1M", f"LAB_PYTHON={sys.executable}", f"LAB_TESTS={TESTS}"),
        *(f"LAB_EXCHANGE={folder}", *systemd, *nic),
        *("--", str(HERE / "init.sh")),
    ]


def _preload(folder: Path) -> list[str]:
    """Build what UML 6.1 lacks on processors with AMX; see widexstate.c."""
    if "amx_tile" not in Path("/proc/cpuinfo").read_text(encoding="ascii"):
        return []
    compiler, library = shutil.which("cc"), folder / "widexstate.so"
    if compiler is None:
        raise LabUnavailable("on a processor with AMX the lab needs a C compiler (cc)")
    source = HERE / "widexstate.c"
    subprocess.run([compiler, "-O2", "-shared", "-fPIC", "-o", library, source], check=True)
    return [f"LD_PRELOAD={library}"]
