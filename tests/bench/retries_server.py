"""The shared dependency of the bench ``retries``: down at first, then with a limited capacity.

A process of its own, so that its clients do not slow it down. Reads one JSON line, ``{"names",
"per_s", "burst"}``, and answers with a port per name. Each further line ``NUMBER MOMENT`` says
from which second of CLOCK_MONOTONIC on the port of that name works; before, it resets every
connection. At the end of its input it prints what arrived, per name: moments in seconds, how many
were turned away, and how many probes of agents there were.
"""

from __future__ import annotations

import asyncio
import json
import math
import socket
import struct
import sys
import time
from dataclasses import dataclass, field

BACKLOG = 4096
LINGER_RESET = struct.pack("ii", 1, 0)
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
BUSY = b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"


@dataclass
class Service:
    """One port: a token bucket behind an outage. ``arrivals`` leaves out the agents' probes."""

    per_s: float
    burst: float
    up_s: float = math.inf
    tokens: float = 0.0
    filled_s: float = 0.0
    arrivals: list[float] = field(default_factory=list)
    refused: int = 0
    probes: int = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one request, or reset its connection."""
        now_s = time.monotonic()
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            probe = head.startswith(b"HEAD")
            self._note(now_s, probe=probe)
            if now_s < self.up_s:
                raw = writer.get_extra_info("socket")
                raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, LINGER_RESET)
            else:
                writer.write(OK if self._has_room(now_s, probe=probe) else BUSY)
                await writer.drain()
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    def _note(self, now_s: float, *, probe: bool) -> None:
        if probe:
            self.probes += 1
        else:
            self.arrivals.append(now_s)

    def _has_room(self, now_s: float, *, probe: bool) -> bool:
        since_s, self.filled_s = now_s - self.filled_s, now_s
        self.tokens = min(self.burst, self.tokens + since_s * self.per_s)
        if self.tokens < 1:
            self.refused += not probe
            return False
        self.tokens -= 1
        return True


async def main() -> None:
    """Serve until the input ends."""
    lines = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    order = json.loads(await lines.readline())
    services = {name: Service(order["per_s"], order["burst"]) for name in order["names"]}
    ports = {}
    for name, service in services.items():
        server = await asyncio.start_server(service.serve, "127.0.0.1", 0, backlog=BACKLOG)
        ports[name] = server.sockets[0].getsockname()[1]
    print(json.dumps(ports), flush=True)
    while line := await lines.readline():
        number, moment = line.decode().split()
        services[order["names"][int(number)]].up_s = float(moment)
    found = {
        name: {"arrivals": one.arrivals, "refused": one.refused, "probes": one.probes}
        for name, one in services.items()
    }
    print(json.dumps(found), flush=True)


if __name__ == "__main__":
    asyncio.run(main())
