"""Each uplink by itself: when to ask, and what answers and their absence say of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from linkhold.decide.uplinks.desk import SECOND, WIDTH
from linkhold.decide.uplinks.values import Ask, LineSight

if TYPE_CHECKING:
    from linkhold.decide.uplinks.desk import Desk
    from linkhold.decide.uplinks.values import Answer, LineRules, Sights, Unsent

REVIVED = 2
"""A dead uplink lives again after so many answered rounds in a row."""
UNSTEADY = 2
"""So many misses in a row begin the wait for a return anew."""
STARTING = "not asked yet"


def see(desk: Desk, sights: Sights) -> None:
    """Take in how the host shows the uplinks now."""
    desk.put(natural=sights.natural)
    if desk.memory.moving is None:
        desk.put(placed=sights.placed)
    gone = LineSight(0, "is not there")
    for link in desk.rules.order:
        _see_one(desk, link, sights.lines.get(link, gone))


def _see_one(desk: Desk, link: str, sight: LineSight) -> None:
    old = desk.line(link).sight
    desk.put_line(link, sight=sight)
    if sight.obstacle:
        _forget(desk, link)
        desk.judge(link, "dead", sight.obstacle)
    elif old.obstacle or old.index != sight.index:
        _forget(desk, link)
        desk.judge(link, "unknown", STARTING)


def _forget(desk: Desk, link: str) -> None:
    """Begin anew: what was under way through the interface of before says nothing."""
    desk.put_line(
        link, asked_ns=0, waiting=False, misses=0, silent_ns=0, revived=0, steady_ns=0, rtt_ns=0
    )


def ask(desk: Desk) -> None:
    """Ask every uplink whose round is due; one that nobody answered until now is a miss.

    What is due in a moment is asked as well: to wake once costs half of waking twice.
    """
    fit = [rule for rule in desk.rules.lines if not desk.line(rule.link).sight.obstacle]
    due = {rule.link: due_ns(desk, rule) for rule in fit}
    if min(due.values(), default=desk.now_ns + 1) > desk.now_ns:
        return
    soon_ns = desk.now_ns + int(desk.rules.probe_interval_s * WIDTH * SECOND)
    for rule in fit:
        if due[rule.link] <= soon_ns:
            _ask_one(desk, rule)


def due_ns(desk: Desk, rule: LineRules) -> int:
    """Return when the next round of an uplink is due."""
    line = desk.line(rule.link)
    return line.asked_ns + desk.interval_ns(rule) if line.asked_ns else desk.now_ns


def _ask_one(desk: Desk, rule: LineRules) -> None:
    link = rule.link
    targets, blind = _targets(desk, rule)
    if desk.line(link).waiting and targets:
        _missed(desk, rule, targets)
    line = desk.put_line(link, asked_ns=desk.now_ns, stretch=desk.stretch(), waiting=bool(targets))
    if targets:
        desk.actions.append(Ask(link, line.sight.index, targets))
    else:
        _blind(desk, link, blind)


def _targets(desk: Desk, rule: LineRules) -> tuple[tuple[str, ...], str]:
    """Return whom to ask, and why nobody when there is nobody."""
    sight = desk.line(rule.link).sight
    if not rule.targets:
        return sight.gateways, f"{rule.link} has no gateway: name targets to ask"
    if not sight.strict or desk.carrying == rule.link:
        return rule.targets, ""
    # The filter looks at IPv4 only, and lets neighbours pass.
    left = tuple(t for t in rule.targets if ":" in t or t in sight.gateways)
    return left, (
        f"rp_filter 1 on {rule.link} drops answers; set 2 "
        f"(sysctl net.ipv4.conf.{rule.link.replace('.', '/')}.rp_filter=2)"
    )


def _missed(desk: Desk, rule: LineRules, targets: tuple[str, ...]) -> None:
    line = desk.line(rule.link)
    misses = line.misses + 1
    line = desk.put_line(
        rule.link,
        misses=misses,
        silent_ns=line.silent_ns or line.asked_ns,
        revived=0,
        steady_ns=0 if misses >= UNSTEADY else line.steady_ns,
    )
    if misses < desk.rules.down_after:
        return
    silence = f"no answer from {', '.join(targets)}"
    if line.known or _witnessed(desk, rule, line.silent_ns):
        desk.judge(rule.link, "dead", silence)
    elif line.verdict == "unknown":
        desk.judge(rule.link, "unknown", f"{silence} ever")


def _witnessed(desk: Desk, rule: LineRules, since_ns: int) -> bool:
    """Tell whether one of its targets has answered through another uplink since then."""
    others = (desk.line(link) for link in desk.rules.order if link != rule.link)
    return any(line.heard.get(target, 0) > since_ns for line in others for target in rule.targets)


def hear(desk: Desk, answer: Answer) -> None:
    """Take in an answer; the first one since a round went out answers that round."""
    link, line = answer.link, desk.line(answer.link)
    if link not in desk.rules.order or line.sight.obstacle:
        return
    desk.put_line(link, heard={**line.heard, answer.target: desk.now_ns})
    if not line.waiting:
        return
    line = desk.put_line(
        link,
        known=True,
        waiting=False,
        misses=0,
        silent_ns=0,
        revived=line.revived + (line.verdict == "dead"),
        steady_ns=line.steady_ns or desk.now_ns,
        answered_ns=desk.now_ns,
        rtt_ns=answer.rtt_ns,
    )
    if line.verdict != "dead" or line.revived >= REVIVED:
        desk.judge(link, "alive")


def unsent(desk: Desk, reading: Unsent) -> None:
    """Take in that a round could not be sent: it says nothing of the uplink."""
    if reading.link in desk.rules.order and not desk.line(reading.link).sight.obstacle:
        desk.put_line(reading.link, waiting=False)
        _blind(desk, reading.link, reading.reason)


def _blind(desk: Desk, link: str, reason: str) -> None:
    line = desk.put_line(link, waiting=False, misses=0, silent_ns=0, revived=0, steady_ns=0)
    # A death that was seen stands until an answer says otherwise.
    if line.verdict != "dead":
        desk.judge(link, "unknown", reason)
    elif reason not in line.reason:
        desk.judge(link, "dead", f"{line.reason}; since then it cannot be asked: {reason}")
