"""Files of a host, as the kernel and its owners write them."""

from __future__ import annotations

STAT = b"77 (python) S 1 77 77 0 -1 4194560 1 0 0 0 1 1 0 0 20 0 4 0 5000 9000000000 100 0\n"


ENVIRON = (
    b"RANK=0\0WORLD_SIZE=8\0NCCL_SOCKET_IFNAME=^lo,eth\0SSH_CONNECTION=10.0.0.9 5 10.0.0.1 22\0"
)


COMMAND = b"/usr/bin/python3\0-m\0torch.distributed.run\0train.py\0--token\0x\0"


STATUS = (
    b"Name:\tpython\nPPid:\t1\nUid:\t1000\t1000\t1000\t1000\n"
    b"SigCgt:\t0000000180014a03\nNSpid:\t77\t5\n"
)


MOUNTS = (
    b"22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\n"
    b"30 22 0:40 / /data rw - nfs4 10.0.0.5:/export rw,addr=10.0.0.5,vers=4.2\n"
    b"31 22 0:41 / / rw - overlay overlay rw,lowerdir=/a:/b,upperdir=/c\n"
)


INTERFACES = (
    b"auto lo eth0\niface eth0 inet dhcp\niface bond0 inet static\n  bond-slaves eth0 eth1\n"
    b"source /etc/network/interfaces.d/*\nmapping eth1\n  script x\niface ${X} inet manual\n"
)


PROFILE = (
    b"[connection]\nid=x\nuuid=1-2\ntype=ethernet\n[ipv4]\nmethod=auto\n[device]\nmanaged="
    b"true\nconnection-uuid=1-2\n"
)


NETWORKD = (
    b"ADMIN_STATE=configured\nNETWORK_FILE=/etc/systemd/network/10-x."
    b"network\nCLIENTID=ff0000000100010203\n[Match]\nName=eth*\n[Network]\nDHCP="
    b"yes\n"
)


NEIGH_STAT = b"entries  allocs destroys table_fulls\n00000010 0 0 00000001\n00000010 0 0 00000000\n"


CLOUD_CFG = b"network: {config: disabled}\nusers: [default]\n"


CNI = b'{"name":"x","plugins":[{"type":"tuning","sysctl":{"net.ipv4.tcp_keepalive_time":"60"}}]}'


SYSCTLS = (
    b"net.ipv4.tcp_keepalive_time = 60\n-net.ipv4.*=1\n[sysctl]\nnet."
    b"ipv4.tcp_keepalive_time=60\n[main]\ninclude=x,y\n"
)


RELEASE = b'ID=debian\nVERSION_ID="12"\nPRETTY_NAME="Debian GNU/Linux 12"\n'
