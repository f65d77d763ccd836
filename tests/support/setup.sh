#!/bin/sh
# Sets up what `make run` and `make test` need. Quick and silent when nothing is missing.
set -eu
venv=$1
python=${PYTHON:-python3}

# Command (or file) that shows a package is there, and the Debian/Ubuntu package that brings it.
needed='
mosquitto mosquitto
upsd nut-server
amtool prometheus-alertmanager
promtool prometheus
linux.uml user-mode-linux
modprobe kmod
ip iproute2
ping iputils-ping
nft nftables
setpriv util-linux
pkg-config pkg-config
dbus-daemon dbus
sshd openssh-server
mke2fs e2fsprogs
nmcli network-manager
dnsmasq dnsmasq-base
netplan netplan.io
chromium chromium
/usr/share/fonts/truetype/dejavu/DejaVuSans.ttf fonts-dejavu-core
/usr/include/systemd/sd-daemon.h libsystemd-dev
'
has() {
    case $1 in
        /*) [ -e "$1" ] ;;
        *) PATH=$PATH:/usr/sbin:/sbin command -v "$1" >/dev/null 2>&1 ;;
    esac
}

missing=$(echo "$needed" | while read -r proof package; do
    [ -z "$proof" ] || has "$proof" || printf ' %s' "$package"
done)

if [ -n "$missing" ]; then
    if ! command -v apt-get >/dev/null 2>&1; then
        echo "setup: not a Debian or Ubuntu: please install$missing (or what they are called here)"
    elif [ "$(id -u)" != 0 ]; then
        echo "setup: not root, so these stay missing:$missing"
        echo "setup: to have all of linkhold: sudo apt-get install$missing"
    else
        echo "setup: installing$missing"
        log=$(mktemp)
        # policy-rc.d keeps Debian from starting the packages' own services (a mosquitto on 1883).
        guard=/usr/sbin/policy-rc.d
        [ -e $guard ] || { printf '#!/bin/sh\nexit 101\n' >$guard; chmod 755 $guard; made=1; }
        export DEBIAN_FRONTEND=noninteractive
        # A package that this release does not have must not keep the others away.
        { apt-get update -q || true
          for package in $missing; do
              apt-get install -y -q --no-install-recommends "$package" ||
                  echo "setup: could not install $package"
          done; } >"$log" 2>&1 || true
        [ -z "${made:-}" ] || rm -f $guard
        case $missing in
            *mosquitto*)  # linkhold starts its own; this one would listen on 1883 after a reboot
                systemctl disable --quiet mosquitto >/dev/null 2>&1 || true
                echo "setup: mosquitto's own service stays disabled" ;;
        esac
        case $missing in
            *openssh-server*)  # tests start their own; nobody asked for a way in here
                systemctl disable --quiet ssh.service ssh.socket >/dev/null 2>&1 || true
                echo "setup: sshd's own service stays disabled" ;;
        esac
        case $missing in
            *network-manager*)  # only the lab's guests start it; here it would take the network
                systemctl disable --quiet NetworkManager NetworkManager-dispatcher \
                    NetworkManager-wait-online >/dev/null 2>&1 || true
                echo "setup: NetworkManager's own services stay disabled" ;;
        esac
        case $missing in
            *nut-server*)  # tests start their own; these would look for a UPS after a reboot
                systemctl disable --quiet nut-server nut-monitor nut-driver.target nut.target \
                    nut-driver-enumerator.service nut-driver-enumerator.path \
                    >/dev/null 2>&1 || true
                echo "setup: NUT's own services stay disabled" ;;
        esac
        case $missing in
            *prometheus*)  # tests start their own; these would scrape and listen after a reboot
                systemctl disable --quiet prometheus prometheus-alertmanager >/dev/null 2>&1 || true
                echo "setup: Prometheus' and Alertmanager's own services stay disabled" ;;
        esac
        grep '^setup:' "$log" || true
        rm -f "$log"
    fi
fi

# The oldest Python that runs linkhold is 3.10.
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null || {
    echo "setup: $python is missing or older than 3.10; name another: make PYTHON=python3.12 ..."
    exit 1
}

mkdir -p build
stamp=$venv/.linkhold-setup
want=$(cat pyproject.toml tests/support/setup.sh | cksum)
if [ ! -f "$stamp" ] || [ "$(cat "$stamp")" != "$want" ]; then
    echo "setup: making $venv (Python packages of linkhold and of its tests)"
    "$python" -m venv "$venv" 2>build/venv.log || {
        cat build/venv.log
        echo "setup: no venv module; on Debian and Ubuntu: apt-get install python3-venv"
        exit 1
    }
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check -e '.[dev]'
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check -e '.[journal]' \
        >build/journal.log 2>&1 ||
        echo "setup: systemd-python cannot be built here; see build/journal.log (libsystemd-dev)"
    # torch is large: it is used where a wheel lies on this machine, else its tests skip.
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-index --no-deps \
        'torch==2.13.0' >/dev/null 2>&1 &&
        "$venv/bin/python" -m pip install --quiet --disable-pip-version-check \
            filelock fsspec jinja2 networkx 'setuptools>=77.0.3' sympy typing-extensions &&
        "$venv/bin/python" -m pip install --quiet --disable-pip-version-check \
            lightning transformers accelerate nvidia-resiliency-ext torchdata >build/training.log 2>&1 &&
        # pynvml, which warns in every interpreter, is what nvidia-ml-py has under the same name.
        "$venv/bin/python" -m pip uninstall --quiet --yes pynvml &&
        "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps \
            --force-reinstall nvidia-ml-py >/dev/null 2>&1 ||
        echo "setup: torch is not on this machine; the tests that need it skip"
    echo "$want" >"$stamp"
fi
