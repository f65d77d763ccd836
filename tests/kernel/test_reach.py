"""Probes beyond the host, on real packets: gateways, paths, DNS, web servers, metadata."""

from __future__ import annotations

import asyncio
import ctypes
import json
import socket
import ssl
import struct
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

import pytest
import trustme

from linkhold.decide.reach import Aim, Kind
from linkhold.model.probes import Answer, Heard
from linkhold.sensors.metadata import metadata
from linkhold.sensors.reach import Ears, Names, ask, dns, gateway, http, icmp, tcp
from support.answering import RESET, FakeAws, Files, Server, http_answer
from support.netns import Namespace

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator

NEAR, NEAR_6, NEAR_LOCAL = "10.0.0.1", "fd00::1", "fe80::1"
FAR, FAR_6 = "10.1.0.9", "fd01::9"
AWS, AWS_6, ALIBABA = "169.254.169.254", "fd00:ec2::254", "100.100.100.200"
SHORT_S = 0.3
PAGE = "<html><body>Please sign in</body></html>"
CAP_NET_RAW = 13


class World:
    """A node behind a router (``near``), and a host beyond it (``far``) with all the servers."""

    def __init__(self, node: Namespace, near: Namespace, far: Namespace) -> None:
        self.node, self.near, self.far = node, near, far
        for space in (node, near, far):
            space.run("sysctl", "-qw", "net.ipv6.conf.default.accept_dad=0")
        node.veth("e0", "g0", other=near)
        near.veth("g1", "f0", other=far)
        near.run("sysctl", "-qw", "net.ipv4.ip_forward=1", "net.ipv6.conf.all.forwarding=1")
        for space, link, four, six in (
            (node, "e0", "10.0.0.2/24", "fd00::2/64"),
            (near, "g0", f"{NEAR}/24", f"{NEAR_6}/64"),
            (near, "g0", "10.0.0.3/24", f"{NEAR_LOCAL}/64"),
            (near, "g1", "10.1.0.1/24", "fd01::1/64"),
            (far, "f0", f"{FAR}/24", f"{FAR_6}/64"),
        ):
            space.ip(f"addr add {four} dev {link}")
            space.ip(f"addr add {six} dev {link} nodad")
        for space, four, six in ((node, NEAR, NEAR_6), (far, "10.1.0.1", "fd01::1")):
            space.ip(f"route add default via {four}")
            space.ip(f"-6 route add default via {six}")
        for address in (AWS, ALIBABA):
            far.ip(f"addr add {address}/32 dev lo")
            near.ip(f"route add {address} via {FAR}")
        far.ip(f"addr add {AWS_6}/128 dev lo nodad")
        near.ip(f"-6 route add {AWS_6} via {FAR_6}")

    def ask(self, work: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
        """Run a probe on the node and return what it says."""
        return self.node.call(lambda: asyncio.run(work()))

    @contextmanager
    def serve(self, *servers: tuple[Any, ...]) -> Iterator[list[Server]]:
        """Have these servers on the far host for a while."""
        with self.far.enter():
            made = [Server(*one) for one in servers]
        with ExitStack() as stack:
            yield [stack.enter_context(one) for one in made]


@pytest.fixture(scope="module")
def world(can_make_namespaces: None) -> Iterator[World]:
    """A node, its gateway and the far host; each test leaves them as they were."""
    with Namespace() as node, Namespace() as near, Namespace() as far:
        yield World(node, near, far)


@contextmanager
def changed(space: Namespace, there: str, back: str) -> Iterator[None]:
    """Run one shell command in a namespace, and afterwards another one."""
    space.run("sh", "-c", there)
    try:
        yield
    finally:
        space.run("sh", "-c", back)


def answered(answer: Answer) -> bool:
    """Tell whether an answer is one, with the time that it took."""
    return answer.heard is Heard.ANSWERS and answer.rtt_ms is not None and answer.rtt_ms < 300


@pytest.mark.parametrize("address", [NEAR, NEAR_6, NEAR_LOCAL])
def test_gateway_answers_although_it_ignores_pings(world: World, address: str) -> None:
    """ARP or ND is enough, asked of everybody first and then of the gateway alone."""
    ignore = "sysctl -qw net.ipv4.icmp_echo_ignore_all={0} net.ipv6.icmp.echo_ignore_all={0}"
    with changed(world.near, ignore.format(1), ignore.format(0)):
        first, second = (world.ask(lambda: gateway("e0", address, 1)) for _ in range(2))

    assert answered(first)
    assert answered(second)
    assert first.how == ("nd" if ":" in address else "arp")
    assert (first.target, first.link) == (address, "e0")


@pytest.mark.parametrize("address", ["10.0.0.77", "fd00::77"])
def test_silent_gateway_is_silent(world: World, address: str) -> None:
    """Who answers neither question is silent, after the deadline and no later."""
    answer = world.ask(lambda: gateway("e0", address, SHORT_S))

    assert answer.heard is Heard.SILENT
    assert answer.rtt_ms is None


def test_gateway_with_another_mac_is_found(world: World) -> None:
    """A gateway that another machine took over answers, though the MAC of before is asked first."""
    assert answered(world.ask(lambda: gateway("e0", NEAR, 1)))
    mac = json.loads(world.near.run("ip", "-j", "link", "show", "g0"))[0]["address"]
    back = f"ip link set g0 address {mac}"
    with changed(world.near, "ip link set g0 address 02:00:00:00:00:99", back):
        answer = world.ask(lambda: gateway("e0", NEAR, 1))

    assert answer.heard is Heard.ANSWERS


@pytest.mark.parametrize("kept", [False, True])
def test_gateway_behind_a_proxy_answers(world: World, kept: bool) -> None:  # noqa: FBT001
    """A router that answers ARP for an address it has not (proxy ARP), and no echo, is heard."""
    there = (
        "sysctl -qw net.ipv4.neigh.g0.proxy_delay=0; ip neigh add proxy 10.0.0.66 dev g0; "
        "ip route add 10.0.0.66 dev g1"
    )
    back = "ip neigh del proxy 10.0.0.66 dev g0; ip route del 10.0.0.66 dev g1"

    async def twice() -> list[Answer]:
        ears = Ears(kept=kept)
        answers = [await gateway("e0", "10.0.0.66", 1, ears) for _ in range(2)]
        ears.close()
        return answers

    with changed(world.near, there, back):
        first, second = world.ask(twice)

    assert (first.how, answered(first), answered(second)) == ("arp", True, True)


def test_gateway_that_is_written_in_for_good_is_not_called_silent(world: World) -> None:
    """Where somebody gave the kernel its MAC, nobody needs to answer ARP: nothing is known."""
    there = "ip neigh add 10.0.0.67 lladdr 02:00:00:00:00:67 dev e0 nud permanent"
    with changed(world.node, there, "ip neigh del 10.0.0.67 dev e0"):
        answer = world.ask(lambda: gateway("e0", "10.0.0.67", SHORT_S))

    assert answer.heard is Heard.UNKNOWN
    assert "the neighbour table calls it permanent" in answer.detail


def test_kept_ears_outlive_their_link(world: World) -> None:
    """A link set down and up, or made again, between two questions costs no answer."""
    mac = "02:00:00:00:00:e0"

    async def probes() -> list[Heard]:
        ears, heard = Ears(), []
        for step in ("", "down", "up", "gone", "again"):
            world.node.run("sh", "-c", scene.get(step, "true"))
            answer = await gateway("d0", "10.9.9.1", SHORT_S, ears)
            heard.append(answer.heard)
        ears.close()
        return heard

    scene = {
        "down": "ip link set d0 down",
        "up": "ip link set d0 up",
        "gone": "ip link del d0",
        "again": (
            f"ip link add d0 type veth peer name d1 netns {world.near.path} && "
            f"ip link set d0 address {mac} up && ip addr add 10.9.9.2/24 dev d0"
        ),
    }
    world.node.run("sh", "-c", scene["again"])
    with changed(world.near, "ip addr add 10.9.9.1/24 dev d1 && ip link set d1 up", "true"):
        scene["again"] += (
            f" && nsenter --net={world.near.path} sh -c "
            "'ip addr add 10.9.9.1/24 dev d1 && ip link set d1 up'"
        )
        heard = world.ask(probes)
    world.node.ip("link del d0")

    assert heard[0] is heard[2] is heard[4] is Heard.ANSWERS
    assert Heard.ANSWERS not in (heard[1], heard[3])


def without_raw(work: Callable[[], Coroutine[Any, Any, Answer]]) -> Callable[[], Answer]:
    """Return what runs a probe in a thread without CAP_NET_RAW."""

    def body() -> Answer:
        libc = ctypes.CDLL(None, use_errno=True)
        header = struct.pack("=Ii", 0x20080522, 0)  # _LINUX_CAPABILITY_VERSION_3, this thread
        data = ctypes.create_string_buffer(24)
        assert libc.capget(header, data) == 0
        words = list(struct.unpack("=6I", data.raw))
        words[0] &= ~(1 << CAP_NET_RAW)
        words[1] &= ~(1 << CAP_NET_RAW)
        assert libc.capset(header, struct.pack("=6I", *words)) == 0
        return asyncio.run(work())

    return body


@pytest.mark.parametrize(
    ("groups", "ignore", "address", "wanted", "detail"),
    [
        ("0 0", 0, NEAR, Heard.ANSWERS, ""),
        ("0 0", 1, NEAR, Heard.ANSWERS, "calls it reachable"),
        ("0 0", 0, "10.0.0.78", Heard.SILENT, "the neighbour table calls it"),
        ("1 0", 0, NEAR, Heard.UNKNOWN, "needs CAP_NET_RAW"),
    ],
)
def test_gateway_without_rights(
    world: World, groups: str, ignore: int, address: str, wanted: Heard, detail: str
) -> None:
    """A ping socket, else the neighbour table that it filled; without one nothing is known."""
    world.node.run("ip", "neigh", "flush", "dev", "e0")
    allow = "sysctl -qw net.ipv4.ping_group_range='{}'"
    ping = "sysctl -qw net.ipv4.icmp_echo_ignore_all={}"
    with (
        changed(world.node, allow.format(groups), allow.format("1 0")),
        changed(world.near, ping.format(ignore), ping.format(0)),
    ):
        answer = world.node.call(without_raw(lambda: gateway("e0", address, SHORT_S)))

    assert answer.heard is wanted
    assert detail in answer.detail


@pytest.mark.parametrize(
    ("target", "link"),
    [(FAR, ""), (FAR, "e0"), (FAR_6, ""), (FAR_6, "e0"), (NEAR_LOCAL, "e0"), ("fe80::1%e0", "")],
)
def test_ping(world: World, target: str, link: str) -> None:
    """A far host answers an echo, by either family, bound or not."""
    assert answered(world.ask(lambda: icmp(target, 1, link)))


def test_ping_without_a_way(world: World) -> None:
    """What a router says is unreachable, with its name; what nobody says is silent or unknown."""
    told = world.ask(lambda: icmp("172.16.0.1", 1))
    assert told.heard is Heard.UNREACHABLE
    assert f"(says {NEAR})" in told.detail

    assert "names are not looked up" in world.ask(lambda: icmp("nas.example", 1)).detail
    gone = world.ask(lambda: icmp(FAR, 1, "nope0"))
    assert (gone.heard, gone.detail) == (Heard.UNKNOWN, "nope0: No such device")


@pytest.mark.parametrize(("target", "head"), [(FAR, 28), (FAR_6, 48)])
def test_mtu_on_the_way(world: World, target: str, head: int) -> None:
    """A narrow way is told by the router; a black hole is silence for large packets only."""
    large = lambda: icmp(target, SHORT_S, size_bytes=1500 - head, dont_fragment=True)  # noqa: E731
    assert answered(world.ask(large))

    narrow = "ip link set {} mtu 1400", "ip link set {} mtu 1500"
    with (
        changed(world.near, *(text.format("g1") for text in narrow)),
        changed(world.far, *(text.format("f0") for text in narrow)),
    ):
        answer = world.ask(large)
        assert answer.heard is Heard.UNREACHABLE
        assert "packets over 1400 bytes do not pass (says " in answer.detail
        if target == FAR:  # routers cut up IPv4 only
            assert answered(world.ask(lambda: icmp(target, 1, size_bytes=1500 - head)))
    with changed(world.far, *(text.format("f0") for text in narrow)):
        assert world.ask(large).heard is Heard.SILENT
        assert answered(world.ask(lambda: icmp(target, 1, dont_fragment=True)))
    too_large = world.ask(lambda: icmp(target, 1, size_bytes=1600, dont_fragment=True))
    assert (too_large.heard, "do not fit the MTU" in too_large.detail) == (Heard.UNKNOWN, True)


def test_tcp(world: World) -> None:
    """A port that listens answers; one that resets refuses; a firewall's drop is silence."""
    with world.serve((socket.SOCK_STREAM, FAR, 2049, lambda _: None)):
        assert answered(world.ask(lambda: tcp(FAR, 2049, 1, "e0")))
    closed = world.ask(lambda: tcp(FAR_6, 2049, 1))
    assert (closed.heard, closed.works) == (Heard.REFUSED, True)
    assert closed.target == f"[{FAR_6}]:2049"
    with changed(world.near, f"ip route add blackhole {FAR}", f"ip route del blackhole {FAR}"):
        assert world.ask(lambda: tcp(FAR, 2049, SHORT_S)).heard is Heard.SILENT
    assert "a name" in world.ask(lambda: tcp("nas.example", 1, 1)).detail


HTTP = [
    (http_answer(200, "fine"), Heard.ANSWERS, "200"),
    (http_answer(302, headers="Location: http://login.example.net/\r\n"), Heard.UNKNOWN, "captive"),
    (http_answer(401), Heard.ANSWERS, "401"),
    (http_answer(500, PAGE), Heard.REFUSED, "500"),
    (b"220 mail ESMTP\r\n", Heard.UNKNOWN, "speaks no HTTP"),
    (b"HTTP/1.1 200 OK\r\nX: " + b"x" * 40_000, Heard.UNKNOWN, "speaks no HTTP"),
    (RESET, Heard.REFUSED, "reset"),
    (None, Heard.SILENT, "no answer within 0.3 s"),
]


@pytest.mark.parametrize(("packet", "wanted", "detail"), HTTP)
def test_http(world: World, packet: bytes | None, wanted: Heard, detail: str) -> None:
    """Each kind of answer is told apart, and the environment's proxies are not asked."""
    with world.serve((socket.SOCK_STREAM, FAR, 80, lambda _: packet)) as (server,):
        answer = world.ask(lambda: http(f"http://{FAR}/health?x=1", SHORT_S))

    assert answer.heard is wanted
    assert detail in answer.detail.lower() or detail in answer.detail
    assert server.asked[0].startswith(b"GET /health?x=1 HTTP/1.1\r\nHost: 10.1.0.9\r\n")


def test_https_believes_the_right_certificate_only(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A certificate of another name, or no TLS at all, makes the answer unknown."""
    authority = trustme.CA()
    ours = ssl.create_default_context(cadata=authority.cert_pem.bytes().decode())
    monkeypatch.setattr("linkhold.sensors.reach.web._contexts", [ours])
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(FAR).configure_cert(tls)
    fine: Callable[[bytes], bytes] = lambda _: http_answer(204)  # noqa: E731
    with world.serve(
        (socket.SOCK_STREAM, FAR, 443, fine, tls),
        (socket.SOCK_STREAM, FAR_6, 443, fine, tls),
        (socket.SOCK_STREAM, FAR, 444, fine),
    ):
        right = world.ask(lambda: http(f"https://{FAR}/", 1))
        wrong = world.ask(lambda: http(f"https://[{FAR_6}]/", 1))
        none = world.ask(lambda: http(f"https://{FAR}:444/", 1))

    assert answered(right)
    assert (wrong.heard, "the certificate is not that of" in wrong.detail) == (Heard.UNKNOWN, True)
    assert (none.heard, "speaks no TLS" in none.detail) == (Heard.UNKNOWN, True)


def dns_answer(flags: int, *addresses: str, cut: bool = False) -> Callable[[bytes], bytes]:
    """Return what answers each question with these addresses."""

    def answer(asked: bytes) -> bytes:
        packed = [socket.inet_aton(one) for one in addresses]
        bits = 0x8180 | flags | (0x0200 if cut else 0)
        head = asked[:2] + struct.pack("!HHHHH", bits, 1, 0 if cut else len(packed), 0, 0)
        records = [b"\xc0\x0c" + struct.pack("!HHIH", 1, 1, 60, 4) + one for one in packed]
        return head + asked[12:] + (b"" if cut else b"".join(records))

    return answer


DNS = [
    (dns_answer(0, "192.0.2.7"), Heard.ANSWERS, "a.example: 192.0.2.7"),
    (dns_answer(2), Heard.REFUSED, "SERVFAIL for a.example"),
    (dns_answer(3), Heard.REFUSED, "NXDOMAIN for a.example"),
    (dns_answer(5), Heard.REFUSED, "REFUSED for a.example"),
    (lambda _: None, Heard.SILENT, "no answer within 0.3 s"),
    (lambda asked: b"\0\0" + dns_answer(0)(asked)[2:], Heard.UNKNOWN, "no answer to what was"),
]


@pytest.mark.parametrize(("reply", "wanted", "detail"), DNS)
def test_dns(
    world: World, reply: Callable[[bytes], bytes | None], wanted: Heard, detail: str
) -> None:
    """A resolver answers, refuses, is silent, or is not believed: each is told apart."""
    with world.serve((socket.SOCK_DGRAM, FAR, 53, reply)):
        answer = world.ask(lambda: dns(FAR, "a.example", SHORT_S))

    assert (answer.heard, detail in answer.detail) == (wanted, True)


def test_dns_without_a_resolver_and_over_tcp(world: World) -> None:
    """A port nobody listens on is no resolver; an answer that is cut off is asked for by TCP."""
    nobody = world.ask(lambda: dns(FAR, "a.example", 1))
    assert (nobody.heard, nobody.detail) == (Heard.UNREACHABLE, "nothing listens on port 53")

    def whole(asked: bytes) -> bytes:
        answer = dns_answer(0, "192.0.2.8")(asked[2:])
        return len(answer).to_bytes(2, "big") + answer

    with world.serve(
        (socket.SOCK_DGRAM, FAR, 53, dns_answer(0, cut=True)),
        (socket.SOCK_STREAM, FAR, 53, whole),
    ):
        assert world.ask(lambda: dns(FAR, "a.example", 1)).detail == "a.example: 192.0.2.8"


@pytest.mark.parametrize("dies", ["refusing", "silent"])
def test_names_outlive_their_resolver(world: World, dies: str) -> None:
    """A target by name is found by the resolver, and by memory when that has died.

    A name that was never found is unknown, not dead, also when the resolver is silent.
    """
    files = Files({"/etc/resolv.conf": f"nameserver {FAR}\n"})
    silent = [(socket.SOCK_DGRAM, FAR, 53, lambda _: None)] if dies == "silent" else []

    async def probes() -> tuple[Answer, ...]:
        names = Names(files)
        with world.serve((socket.SOCK_DGRAM, FAR, 53, dns_answer(0, FAR))):
            alive = await tcp("a.example", 2049, 1, names=names)
        with world.serve(*silent):
            dead = await tcp("a.example", 2049, SHORT_S, names=names)
            never = await tcp("b.example", 2049, SHORT_S, names=names)
        return alive, dead, never

    with world.serve((socket.SOCK_STREAM, FAR, 2049, lambda _: None)):
        alive, dead, never = world.ask(probes)

    assert [one.heard for one in (alive, dead)] == [Heard.ANSWERS] * 2
    assert (never.heard, "no address of b.example" in never.detail) == (Heard.UNKNOWN, True)


def test_address_that_moved_is_found_by_the_next_probe(world: World) -> None:
    """A name is looked up anew beside each probe: a load balancer's new address is soon used."""

    async def probes() -> list[Heard]:
        names = Names(Files({"/etc/resolv.conf": f"nameserver {FAR}\n"}))
        heard = []
        for address in ("10.1.0.1", FAR, FAR):
            with world.serve((socket.SOCK_DGRAM, FAR, 53, dns_answer(0, address))):
                heard.append((await tcp("a.example", 2049, 1, names=names)).heard)
                await asyncio.sleep(0.1)
        return heard

    with world.serve((socket.SOCK_STREAM, FAR, 2049, lambda _: None)):
        assert world.ask(probes) == [Heard.REFUSED, Heard.REFUSED, Heard.ANSWERS]


@pytest.mark.parametrize(
    "aim",
    [
        Aim("a", Kind.GATEWAY, "gateway", NEAR, "e0"),
        Aim("a", Kind.DNS, "dns", FAR, query="."),
        Aim("a", Kind.PATH, "icmp", "far.local", "e0"),
        Aim("a", Kind.PATH, "tcp", f"[{FAR_6}]:80", "e0"),
        Aim("a", Kind.PATH, "http", "http://far.local/"),
    ],
    ids=lambda aim: aim.how,
)
def test_each_aim_is_asked_its_way(world: World, aim: Aim) -> None:
    """What the machine wants asked is asked by the right probe, names included."""
    names = Names(Files({"/etc/hosts": f"{FAR} far.local\n"}))
    fine: Callable[[bytes], bytes] = lambda _: http_answer(200)  # noqa: E731
    with world.serve(
        (socket.SOCK_DGRAM, FAR, 53, dns_answer(0)),
        (socket.SOCK_STREAM, FAR, 80, fine),
        (socket.SOCK_STREAM, FAR_6, 80, fine),
    ):
        heed = world.ask(lambda: ask(aim, 1, names, Ears(kept=False)))

    assert heed.name == "a"
    assert answered(heed.answer)
    assert heed.answer.target == aim.target


def test_metadata_answers_over_both_families(world: World) -> None:
    """The token flow of IMDSv2, and one more token when the first one is refused."""
    with world.serve(
        (socket.SOCK_STREAM, AWS, 80, FakeAws(refuse_first=1)),
        (socket.SOCK_STREAM, AWS_6, 80, FakeAws()),
    ) as (four, _):
        got = world.ask(lambda: metadata("Amazon EC2", asked=False, timeout_s=1))

    assert [(one.heard, one.target.partition("/l")[0]) for one in got] == [
        (Heard.ANSWERS, f"http://{AWS}"),
        (Heard.ANSWERS, f"http://[{AWS_6}]"),
    ]
    assert [asked.split(b" ")[0] for asked in four.asked] == [b"PUT", b"GET", b"PUT", b"GET"]


@pytest.mark.parametrize(
    "lie",
    [
        http_answer(200, PAGE),
        http_answer(302, headers="Location: http://login.example.net/\r\n"),
        http_answer(401),
        http_answer(500, PAGE),
        http_answer(503),
        http_answer(200, '{"id": 1}'),
        b"SSH-2.0-OpenSSH_9.2\r\n",
    ],
)
def test_metadata_lies_are_unknown(world: World, lie: bytes) -> None:
    """Whatever stands in the service's place is unknown; a dead IPv6 address changes nothing."""
    with world.serve((socket.SOCK_STREAM, AWS, 80, FakeAws(lie))):
        four, six = world.ask(lambda: metadata("Amazon EC2", asked=False, timeout_s=1))

    assert (four.heard, four.works, six.heard) == (Heard.UNKNOWN, False, Heard.REFUSED)
    assert four.detail


def test_metadata_of_no_cloud_is_asked_on_demand_only(world: World) -> None:
    """Nothing is sent without a vendor; asked for, the cloud is found by who answers."""

    def google(asked: bytes) -> bytes:
        ours = b"metadata-flavor: google" in asked.lower() and b"host: metadata.google.internal"
        if ours and ours in asked.lower():
            return http_answer(200, "5551234567890", "Metadata-Flavor: Google\r\n")
        return http_answer(403)

    with world.serve((socket.SOCK_STREAM, AWS, 80, google)) as (server,):
        quiet = world.ask(lambda: metadata("", asked=False, timeout_s=SHORT_S))
        sent = list(server.asked)
        found = world.ask(lambda: metadata("", asked=True, timeout_s=SHORT_S))

    assert (quiet, sent) == ((), [])
    assert [(one.heard, one.detail) for one in found] == [
        (Heard.ANSWERS, "Google Cloud: 5551234567890")
    ]
    nobody = world.ask(lambda: metadata("Nebius", asked=True, timeout_s=SHORT_S))
    assert [one.detail for one in nobody] == ["no metadata service of Nebius is known"]


def test_metadata_goes_round_the_proxy(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment's proxies see nothing; without a service its silence or refusal is told."""
    monkeypatch.setenv("http_proxy", f"http://{FAR}:3128")
    with world.serve((socket.SOCK_STREAM, FAR, 3128, lambda _: http_answer(407))) as (proxy,):
        got = world.ask(lambda: metadata("Alibaba Cloud", asked=False, timeout_s=SHORT_S))

    assert [one.heard for one in got] == [Heard.REFUSED]
    assert proxy.asked == []
