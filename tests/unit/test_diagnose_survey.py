"""What a diagnosis reads of this host: PCIe lanes and how full the kernel's tables are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from linkhold.model.diagnosis_facts import Fill
from linkhold.model.look import Look, LookedNeighbour
from linkhold.survey.files import Reader
from linkhold.survey.pcie import Lanes, lanes
from linkhold.survey.tables import fills

if TYPE_CHECKING:
    from pathlib import Path

REACHABLE, PERMANENT = 0x02, 0x80


def write(root: Path, files: dict[str, str]) -> Reader:
    """Return a reader of a host with these files."""
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return Reader(root)


def test_lanes_of_card_and_slot(tmp_path: Path) -> None:
    """Widths and speeds as sysfs writes them; what has fallen off the bus shows nonsense."""
    slot = "sys/devices/pci0000:40/0000:40:01.0"
    card = f"{slot}/0000:41:00.0"
    reader = write(tmp_path, {
        f"{slot}/max_link_speed": "16.0 GT/s PCIe\n", f"{slot}/max_link_width": "16\n",
        f"{card}/current_link_speed": "8.0 GT/s PCIe\n",
        f"{card}/max_link_speed": "16.0 GT/s PCIe\n",
        f"{card}/current_link_width": "8\n", f"{card}/max_link_width": "16\n",
        f"{card}/net/eth0/ifindex": "2\n",
    })  # fmt: skip
    net = tmp_path / "sys/class/net"
    net.mkdir(parents=True)
    (tmp_path / card / "net/eth0/device").symlink_to("../..")
    (net / "eth0").symlink_to(f"../../../{card}/net/eth0")

    assert lanes(reader, "eth0") == Lanes(8.0, 16.0, 8, 16, 16.0, 16)
    (tmp_path / card / "current_link_width").write_text("63\n")
    assert lanes(reader, "eth0").width == 0
    assert lanes(reader, "eth7") == Lanes()


def test_how_full_tables_are(tmp_path: Path) -> None:
    """Permanent entries do not count; those of other namespaces do once the table was full."""
    look = Look(neighbours=(
        LookedNeighbour(2, "inet", "10.0.0.1", "02:00:00:00:00:01", REACHABLE),
        LookedNeighbour(2, "inet", "10.0.0.2", "02:00:00:00:00:02", PERMANENT),
    ))  # fmt: skip
    heads = "entries  allocs   table_fulls\n"
    reader = write(tmp_path, {
        "proc/sys/net/ipv4/neigh/default/gc_thresh3": "1024\n",
        "proc/net/stat/arp_cache": f"{heads}00000400 00000001 00000000\n",
        "proc/sys/net/netfilter/nf_conntrack_count": "7\n",
        "proc/sys/net/netfilter/nf_conntrack_max": "100\n",
    })  # fmt: skip

    assert list(fills(reader, look)) == [
        Fill("neighbours IPv4", 1, 1024),
        Fill("conntrack", 7, 100),
    ]
    write(tmp_path, {"proc/net/stat/arp_cache": f"{heads}00000400 00000001 00000003\n"})
    assert next(fills(reader, look)) == Fill("neighbours IPv4", 1024, 1024)
