# SPDX-License-Identifier: MIT
"""Builds and caches the file system trees that the test machines boot from.

An image is CACHE/KIND-SUITE-KEY/root, where KEY is a digest of its recipe: a changed recipe makes a new
image and never touches one that is in use. It is built under a temporary name and renamed when complete,
under a lock, so any number of users share one cache. CACHE/KIND-SUITE is a link to the newest.

Kinds: run     a small installation with systemd, ready for our package to be installed without a network
       build   the same release with our build dependencies
       kernel  user-mode Linux and the libraries it needs, nothing else"""

import os
import pathlib
import shutil
import tempfile
import time

import host

RECIPE = 3                      # count up when the recipe below changes in a way the digest does not see
KEPT_SECONDS = 24 * 3600        # of what is cached beside the images, by `tests/run clean`
HERE = pathlib.Path(__file__).resolve().parent

RUN = """systemd systemd-sysv dbus dbus-user-session libpam-systemd libnss-systemd python3 python3-numpy
    python3-pandas python3-matplotlib python3-pil python3-yaml python3-jinja2 python3-packaging
    python3-jsonschema iproute2 procps util-linux curl strace ca-certificates adduser kmod libcap2-bin
    fontconfig""".split()
# Where a release has two, a script can choose.
ANOTHER_PYTHON = {"sid": ["python3.13"]}
BUILD = """build-essential debhelper meson ninja-build pkgconf libsystemd-dev libcjson-dev libmicrohttpd-dev
    nettle-dev python3 python3-packaging fakeroot lintian ca-certificates systemd""".split()
BUILD_NEWER = ["systemd-dev"]   # before trixie its files are in the systemd package
# The oldest release is also where the unit, protocol and lint tiers run, with both compilers.
BUILD_OLDEST = """clang libclang-rt-14-dev clang-format clang-tidy shellcheck codespell mandoc git dbus procps
    iproute2 caddy haproxy openssl python3-jsonschema python3-numpy python3-matplotlib""".split()
KERNEL = ["user-mode-linux"]

# Libraries that our package links: their names differ between releases, so ask the -dev packages.
LIBRARIES = """
chroot "$1" sh -ec 'apt-get install -y --no-install-recommends $(
    apt-cache depends libcjson-dev libmicrohttpd-dev nettle-dev |
    sed -nE "s/^ *Depends: ((libcjson|libmicrohttpd|libnettle|libhogweed)[0-9][^ ]*)$/\\1/p")'
"""

# Two ordinary users with a service manager of their own from boot on, as after loginctl enable-linger.
USERS = """
for user in alice bob; do
    chroot "$1" useradd --create-home --shell /bin/bash "$user"
done
mkdir -p "$1/var/lib/systemd/linger"
touch "$1/var/lib/systemd/linger/alice" "$1/var/lib/systemd/linger/bob"
"""

# A fixed machine id (a missing one makes each boot a first boot, with presets), a journal that drops
# nothing, and no timer that would install, clean or index something in the middle of a test.
SETTINGS = """
systemd-machine-id-setup --root="$1" >/dev/null
mkdir -p "$1/etc/systemd/journald.conf.d" "$1/mnt/host"
printf '[Journal]\\nStorage=volatile\\nRateLimitIntervalSec=0\\nRuntimeMaxUse=256M\\n' \
    > "$1/etc/systemd/journald.conf.d/test.conf"
echo test-machine > "$1/etc/hostname"
printf '127.0.0.1 localhost test-machine\\n::1 localhost\\n' > "$1/etc/hosts"
for unit in apt-daily.timer apt-daily-upgrade.timer dpkg-db-backup.timer e2scrub_all.timer fstrim.timer \
        man-db.timer systemd-networkd.service systemd-resolved.service systemd-timesyncd.service \
        getty@tty1.service console-getty.service systemd-firstboot.service systemd-pcrlock-make-policy.service \
        systemd-networkd-wait-online.service getty-static.service serial-getty@.service; do
    ln -sf /dev/null "$1/etc/systemd/system/$unit"
done
"""


def hooks(kind):
    """The shell hooks of an image's kind, in order; each gets the tree as $1."""
    if kind == "kernel":
        return []
    found = []
    for certificate in host.certificates():
        found.append(f'install -D -m 0644 "{certificate}" "$1{host.CERTIFICATES}/{certificate.name}"')
    if found:
        found.append('chroot "$1" update-ca-certificates >/dev/null 2>&1')
    if kind == "build":
        return found + ['chroot "$1" useradd --create-home --shell /bin/bash builder',
                        'chroot "$1" systemd-machine-id-setup >/dev/null']
    units = HERE / "units"
    copy = []
    for unit in sorted(units.glob("*.service")):
        copy.append(f'install -D -m 0644 "{unit}" "$1/etc/systemd/system/{unit.name}"')
        copy.append(f'chroot "$1" systemctl enable {unit.name}')
    return found + [LIBRARIES, USERS, SETTINGS, *copy]


def packages(kind, suite):
    if kind == "kernel":
        return KERNEL
    if kind == "build":
        return BUILD + (BUILD_OLDEST if suite == "bookworm" else BUILD_NEWER)
    return RUN + ANOTHER_PYTHON.get(suite, [])


def recipe_key(kind, suite):
    units = [u.read_bytes() for u in sorted((HERE / "units").glob("*.service"))] if kind == "run" else []
    files = [c.read_bytes() for c in host.certificates()] if kind != "kernel" else []
    # Two checkouts share an image: where the tree lies is no part of the recipe.
    steps = [hook.replace(str(HERE), "") for hook in hooks(kind)]
    return host.digest(RECIPE, kind, suite, packages(kind, suite), steps, host.apt_options(), *units, *files)


def folder(kind, suite):
    return host.CACHE / f"{kind}-{suite}-{recipe_key(kind, suite)}"


def _build(kind, suite, target):
    options = [f"--aptopt={line}" for line in host.apt_options()]
    options.append('--aptopt=APT::Install-Recommends "false";')
    if suite == "sid":
        # Snapshots and lagging mirrors serve an unstable index past its date.
        options.append('--aptopt=Acquire::Check-Valid-Until "false";')
    variant = "extract" if kind == "kernel" else "minbase"
    if kind != "kernel":
        # The package lists stay: a hook installs with them, and a person in a shell wants to.
        options.append("--skip=cleanup/apt/lists")
    mirror = host.mirror()
    source = [f"deb {mirror} {suite} main"] if mirror else []
    log = host.CACHE / f"{target.name}.log"
    log.unlink(missing_ok=True)
    work = pathlib.Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=host.CACHE))
    try:
        work.chmod(0o755)
        host.say(f"building the {kind} image of {suite} (a few minutes, once; log: {log})")
        # In a root of its own below the work directory, for mmdebstrap wants an empty one.
        host.run("mmdebstrap", f"--variant={variant}", f"--include={','.join(packages(kind, suite))}",
                 *options, *[f"--customize-hook={h}" for h in hooks(kind)], suite, work / "root", *source,
                 log=log, stdin=-3)
        os.rename(work, target)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def image(kind, suite):
    """The root directory of an image, built first when it is missing."""
    target = folder(kind, suite)
    if not (target / "root").is_dir():
        with host.Lock(f"{kind}-{suite}"):
            if not (target / "root").is_dir():
                _build(kind, suite, target)
    link = host.CACHE / f"{kind}-{suite}"
    if not link.is_symlink() or os.readlink(link) != target.name:
        fresh = host.CACHE / f".{link.name}.{os.getpid()}"
        fresh.symlink_to(target.name)
        os.replace(fresh, link)
    return target / "root"


def disk(suite):
    """An ext4 file system of the run image for the vm; never written to, the vm puts its changes
    elsewhere."""
    root = image("run", suite)
    path = root.parent / "disk.ext4"
    if not path.exists():
        with host.Lock(f"disk-{suite}"):
            if not path.exists():
                host.say(f"making the disk of {suite}")
                used = int(host.output_of("du", "-sxm", root).split()[0])
                fresh = path.with_suffix(f".{os.getpid()}")
                try:
                    # Room for what the tests write; the file is sparse.
                    host.run("mke2fs", "-q", "-t", "ext4", "-L", "root", "-d", root, fresh,
                             f"{used + 1500}M", log=host.CACHE / f"{root.parent.name}.log")
                    os.rename(fresh, path)
                finally:
                    fresh.unlink(missing_ok=True)
    return path


def outdated():
    """Cached things that no current recipe uses, and what a killed build left."""
    if not host.CACHE.is_dir():
        return []
    current = {folder(k, s).name for k in ("run", "build", "kernel") for s in host.SUITES}
    found = []
    for entry in host.CACHE.iterdir():
        name = entry.name
        if entry.is_symlink() or name.endswith(".lock"):
            continue
        if entry.is_dir() and name.startswith((".run-", ".build-", ".kernel-")):
            found.append(entry)
        elif name.startswith(("run-", "build-", "kernel-")) and name.removesuffix(".log") not in current:
            found.append(entry)
    # Packages, build directories and results are quickly made again.
    for folder_name in ("debs", "meson", "runs"):
        base = host.CACHE / folder_name
        entries = base.iterdir() if base.is_dir() else ()
        found += [e for e in entries if time.time() - e.stat().st_mtime > KEPT_SECONDS]
    return found
