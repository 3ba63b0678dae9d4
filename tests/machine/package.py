# SPDX-License-Identifier: MIT
"""Builds the Debian package of this tree in the build image of a release, and runs lintian on it.

Results are cached by a digest of the sources: CACHE/debs/SUITE-KEY holds the .deb, .changes and
build.log."""

import os
import pathlib
import shutil
import subprocess
import tempfile

import host
import images
import overlay

# What cannot change the package; a test can be edited without a new build.
APART = ("tests/machine/", "tests/system/", "tests/protocol/conformance/", "tests/run", ".ci/", ".github/")


def source_key(suite, checked):
    parts = []
    for name in host.source_files():
        if not name.startswith(APART):
            path = host.TREE / name
            content = os.readlink(path).encode() if path.is_symlink() else path.read_bytes()
            parts += [name, path.lstat().st_mode & 0o111, content]
    return host.digest(suite, checked, images.recipe_key("build", suite), *parts)


def copy_sources(target):
    """The tree as a checkout would have it, times kept so that a build directory can be used again."""
    for name in host.source_files():
        path = target / name
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(host.TREE / name, path, follow_symlinks=False)


def inside(tree, argv, log, user="builder", folder="/src", binds=(), check=True, seconds=3600, setenv=()):
    """Runs a command in a tree as an ordinary user, without a network and without booting it."""
    command = ["setpriv", "--pdeathsig", "KILL",
               "systemd-nspawn", "--quiet", "--register=no", "--keep-unit", "--pipe", "--as-pid2",
               "--private-network", "--resolv-conf=off", "--timezone=off", "--link-journal=no",
               f"--directory={tree.root}", f"--user={user}", f"--chdir={folder}"]
    command += [f"--setenv={pair}" for pair in ("LC_ALL=C.UTF-8", *setenv)]
    command += [f"--bind={source}:{target}" for source, target in binds]
    return host.run(*command, *argv, log=log, check=check, stdin=subprocess.DEVNULL, timeout=seconds)


_built = {}                     # one run of tests/run tests one state of the sources, also while they change


def build(suite, checked=False):
    """The built package's directory; `checked` says that the build must run the unit tests."""
    if suite not in _built:
        _built[suite] = _find_or_build(suite, checked)
    return _built[suite]


def _find_or_build(suite, checked):
    debs = host.CACHE / "debs"
    target = debs / f"{suite}-{source_key(suite, True)}"
    if checked or target.is_dir():
        checked = True
    else:
        target = debs / f"{suite}-{source_key(suite, False)}"
    if target.is_dir():
        return target
    root = images.image("build", suite)
    with host.Lock(f"deb-{suite}"):
        if target.is_dir():
            return target
        host.say(f"building the package on {suite}")
        debs.mkdir(parents=True, exist_ok=True)
        work = pathlib.Path(tempfile.mkdtemp(prefix=f".{suite}.", dir=debs))
        work.chmod(0o755)
        try:
            _build(suite, root, work, checked)
            os.rename(work, target)
        except host.Failed:
            kept = host.CACHE / f"deb-{suite}.failed.log"
            if (work / "build.log").exists():
                shutil.copy(work / "build.log", kept)
            raise
        finally:
            shutil.rmtree(work, ignore_errors=True)
    return target


def _build(suite, root, work, checked):
    with overlay.Overlay(root) as tree:
        source = tree.root / "src" / "mcp-exec"
        copy_sources(source)
        host.run("chroot", tree.root, "chown", "-R", "builder:", "/src")
        options = "parallel=2" if checked else "parallel=2 nocheck"
        inside(tree, ["dpkg-buildpackage", "--build=binary", "--no-sign"], work / "build.log",
               folder="/src/mcp-exec", setenv=(f"DEB_BUILD_OPTIONS={options}",))
        for file in (tree.root / "src").iterdir():
            if file.suffix in (".deb", ".changes", ".buildinfo"):
                shutil.copy(file, work / file.name)


def deb(suite):
    """The binary package that the tests install."""
    return next(f for f in sorted(build(suite).glob("mcp-exec_*.deb")))


def lint(suite):
    """Runs that release's lintian on the package; Failed when it finds an error or a warning."""
    folder = build(suite)
    with overlay.Overlay(images.image("build", suite)) as tree:
        for file in folder.glob("mcp-exec*"):
            shutil.copy(file, tree.root / "home" / "builder" / file.name)
        changes = next(folder.glob("*.changes")).name
        inside(tree, ["lintian", "--fail-on", "error,warning", "--info", "--tag-display-limit=0", changes],
               folder / "lintian.log", folder="/home/builder")
