#!/bin/sh
# SPDX-License-Identifier: MIT
# Inside a fresh test machine: waits until it is up, installs the package given, starts what the tests talk to.
set -eu
deb=$1

systemctl is-system-running --wait >/dev/null || true
DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "$deb" >/tmp/install.log 2>&1 || {
    cat /tmp/install.log
    exit 1
}

# Only where the machine really cannot have them (a container on a cgroup v1 host): every other protection stays.
missing=
for controller in memory pids cpu; do
    grep -qw "$controller" /sys/fs/cgroup/cgroup.controllers || missing="$missing $controller"
done
if [ -n "$missing" ]; then
    mkdir -p /etc/mcp-exec/mcp-exec.conf.d
    printf '# This test machine has no%s controller.\n[Sandbox]\nRequireControllers=\n' "$missing" \
        > /etc/mcp-exec/mcp-exec.conf.d/50-test-machine.conf
fi
systemctl start mcp-exec.socket
