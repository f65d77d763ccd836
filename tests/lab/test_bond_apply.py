from __future__ import annotations
import time
from support.lab import Box, scenario
from support.topology import ip, ip_batch
from support import host_state, furnish
from support.bond_change import Host
from support.echo_stream import EchoStream

@scenario(timeout_s=60)
def rich(box: Box, token: bool=False, remove: bool=True):
    net = box.two_switches()
    furnish.furnish(net, token=token)
    host = Host(box.tmp)
    before = host_state.take()
    t=time.monotonic()
    done = host.apply()
    took=time.monotonic()-t
    after = host_state.take()
    t=time.monotonic()
    removed = host.run("remove", "bond0", "--yes") if remove else done
    took2=time.monotonic()-t
    left = host_state.wait_equal(before)
    return {"code": done.code, "said": done.said[-1500:], "steps": done.steps, "took": took, "took2": took2, "removed": [removed.code, removed.said[-500:], removed.steps],
       "left": left,
       "diff": host_state.differences(host_state.carried(before,"eth0",members=("eth1",)), host_state.carried(after,"bond0", members=("eth0","eth1")))}
