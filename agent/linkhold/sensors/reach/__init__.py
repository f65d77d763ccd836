"""Probes of what lies beyond this host: gateways, hosts, ports, web servers, resolvers.

Each is a coroutine with its own deadline that never raises and never blocks the loop. None looks a
name up by the C library, and none uses a proxy of the environment.
"""

from linkhold.sensors.reach.ask import ask
from linkhold.sensors.reach.dns import Texts, dns, resolvers
from linkhold.sensors.reach.ears import Ears
from linkhold.sensors.reach.gateway import gateway
from linkhold.sensors.reach.icmp import icmp
from linkhold.sensors.reach.names import Names
from linkhold.sensors.reach.web import http, tcp

__all__ = ["Ears", "Names", "Texts", "ask", "dns", "gateway", "http", "icmp", "resolvers", "tcp"]
