#!/bin/sh
# A node with systemd out of namespaces: container.sh HOST CGROUP FOLDER...
# FOLDERs are laid over the machine's root; HOST is its name. Runs in a network namespace that is
# the node's; all else that it makes ends with its first process.
set -eu
host=$1 cgroup=$2
shift 2
echo $$ >"$cgroup/cgroup.procs"
exec unshare --mount --pid --uts --ipc --cgroup --fork --kill-child=KILL /bin/sh -eu -c '
host=$1
shift
mount --make-rprivate /
mount -t tmpfs -o mode=755 none /mnt
mkdir /mnt/up /mnt/work /mnt/root
# Copied, since the kernel takes no lower folder that lies below another (ELOOP).
for folder; do cp -a "$folder/." /mnt/up; done
mount -t overlay -o "lowerdir=/,upperdir=/mnt/up,workdir=/mnt/work" overlay /mnt/root
cd /mnt/root
hostname "$host"
echo "$host" >etc/hostname
: >etc/fstab
rm -rf etc/machine-id && echo "$host" | md5sum | cut -c1-32 >etc/machine-id
mount -t proc proc proc
mount -t sysfs sysfs sys
mount -t cgroup2 cgroup2 sys/fs/cgroup
mount -t tmpfs -o mode=755 none run
mount -t tmpfs none tmp
mount -t tmpfs -o mode=755 none dev
mkdir dev/pts dev/shm run/sshd
mount -t devpts -o newinstance,ptmxmode=0666 devpts dev/pts
ln -s pts/ptmx dev/ptmx
for node in null:3 zero:5 full:7 random:8 urandom:9; do
    mknod -m 666 dev/${node%:*} c 1 ${node#*:}
done
mknod -m 666 dev/tty c 5 0
mkdir -p old
pivot_root . old
umount -l /old
exec env -i container=lab PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
    /lib/systemd/systemd --unit=multi-user.target --show-status=no --log-target=journal \
    </dev/null >/dev/null 2>&1
' container "$host" "$@"
