# First program of the guest: file systems and modules, then the runner takes over as PID 1.
# The host passes LAB_PYTHON, LAB_TESTS (the checkout's tests folder) and LAB_EXCHANGE (where
# requests and answers lie) on the kernel command line; LAB_SYSTEMD for a guest with systemd.
export PATH=/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 HOME=/run/tmp TMPDIR=/run/tmp
export LINKHOLD_LAB=1 PYTHONDONTWRITEBYTECODE=1 PYTHONPATH="$LAB_TESTS:$LAB_TESTS/../agent"
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t tmpfs run /run

# modprobe looks in /lib/modules, where Debian does not put UML's modules. The kernel's own
# requests (ip link add type vlan, AF_INET6 ...) take the same way through this script.
release=$(cat /proc/sys/kernel/osrelease)
mkdir -p /run/m/lib/modules /run/m/conf
ln -s "/usr/lib/uml/modules/$release" /run/m/lib/modules/
echo 'options bonding max_bonds=0' >/run/m/conf/lab.conf
printf '#!/bin/sh\nexec modprobe -d /run/m -C /run/m/conf "$@"\n' >/run/m/modprobe
chmod +x /run/m/modprobe
echo /run/m/modprobe >/proc/sys/kernel/modprobe
/run/m/modprobe -a bonding veth bridge || exit 1

mkdir /run/exchange
mount -t hostfs -o "$LAB_EXCHANGE" none /run/exchange || exit 1
ip link set lo up
cd "$LAB_TESTS" || exit 1
[ -z "$LAB_SYSTEMD" ] || . support/lab/systemd.sh
exec "$LAB_PYTHON" -m support.lab.guest
