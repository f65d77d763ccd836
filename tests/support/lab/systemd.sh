# Sourced by init.sh: systemd on an overlay, so that the host is never written. The upper part of
# the overlay is a disk that outlives the guest, and so do the changes that a scenario makes.
[ -b /dev/ubda ] || mount -t devtmpfs dev /dev || exit 1
/run/m/modprobe overlay || exit 1
mkdir /run/disk
mount -t ext4 /dev/ubda /run/disk || exit 1
mkdir -p /run/disk/up /run/disk/work
mount -t overlay -o lowerdir=/,upperdir=/run/disk/up,workdir=/run/disk/work overlay /mnt || exit 1
"$LAB_PYTHON" -m support.lab.prepare /mnt || exit 1
echo /sbin/modprobe >/proc/sys/kernel/modprobe
for folder in run sys dev proc; do
    mount -n --move /$folder /mnt/$folder || exit 1
done
cd /mnt || exit 1
pivot_root . mnt || exit 1
exec chroot . /bin/sh -c '
    umount -l /mnt
    exec env -i PATH="$PATH" /lib/systemd/systemd --unit=multi-user.target --show-status=no' \
    </dev/console >/dev/console 2>&1
