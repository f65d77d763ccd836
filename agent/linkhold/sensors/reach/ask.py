"""One question of :mod:`linkhold.decide.reach` put to the world."""

from __future__ import annotations

from typing import TYPE_CHECKING

from linkhold.decide.reach_aims import ROOT
from linkhold.decide.reach_values import Aim, Heed
from linkhold.sensors.reach.dns import dns
from linkhold.sensors.reach.gateway import gateway
from linkhold.sensors.reach.icmp import icmp
from linkhold.sensors.reach.web import http, tcp

if TYPE_CHECKING:
    from linkhold.model.probes import Answer
    from linkhold.sensors.reach.ears import Ears
    from linkhold.sensors.reach.names import Names


async def ask(aim: Aim, timeout_s: float, names: Names, ears: Ears) -> Heed:
    """Ask what ``aim`` says, and return the answer with its name. Never raises."""
    return Heed(aim.name, await _ask(aim, timeout_s, names, ears))


async def _ask(aim: Aim, timeout_s: float, names: Names, ears: Ears) -> Answer:
    if aim.how == "gateway":
        return await gateway(aim.link, aim.target, timeout_s, ears)
    if aim.how == "dns":
        qtype = "NS" if aim.query == ROOT else "A"
        return await dns(aim.target, aim.query, timeout_s, qtype, aim.link)
    if aim.how == "tcp":
        host, _, port = aim.target.rpartition(":")
        return await tcp(host.strip("[]"), int(port), timeout_s, aim.link, names=names)
    if aim.how == "http":
        return await http(aim.target, timeout_s, aim.link, names=names)
    return await icmp(aim.target, timeout_s, aim.link, names=names)
