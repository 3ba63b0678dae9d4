# SPDX-License-Identifier: MIT
"""The verbs of tests/run."""

import argparse
import os
import pathlib
import shlex
import shutil
import signal
import subprocess
import sys

import conformance
import container
import demo
import host
import images
import index
import package
import results
import stages
import uv
import vm


def cmd_demo(arguments):
    return demo.show(arguments.suite, arguments.machine)


def cmd_all(_):
    where = results.folder()
    return results.report(stages.everything(where), where)


def cmd_tier(arguments):
    where = results.folder()
    found = stages.compiled(arguments.compiler, (arguments.verb,), where, arguments.name)
    return results.report(found, where)


def cmd_conformance(_):
    where = results.folder()
    found = conformance.everything(where)
    host.say(f"logs: {where}")
    return results.report(found, where)


def cmd_index(arguments):
    where = results.folder()
    found = index.everything(where, arguments.suite, arguments.name)
    host.say(f"logs: {where}")
    return results.report(found, where)


def cmd_container(arguments):
    where = results.folder()
    scripts = "package_*.py" if arguments.life else "test_*.py"
    found = stages.in_container(arguments.suite, where, arguments.name, arguments.quick, scripts)
    host.say(f"logs: {where}")
    return results.report(results.united(found), where)


def cmd_vm(arguments):
    where = results.folder()
    found = stages.in_vm(arguments.suite, where, arguments.name, quick=arguments.quick)
    host.say(f"logs: {where}")
    return results.report(results.united(found), where)


def cmd_shell(arguments):
    command = arguments.command[1:] if arguments.command[:1] == ["--"] else arguments.command
    if arguments.machine == "vm":
        if not command:
            raise host.Failed("the vm has no terminal: give a command after --")
        where = results.folder()
        shared = stages.exchange(arguments.suite, "vm", where) if arguments.deb else None
        status, output = vm.run_command(arguments.suite, shlex.join(command), shared=shared,
                                        prepare=arguments.deb, log=where / "vm.log")
        sys.stdout.write(output)
        return status
    shared = [(host.TREE, "/mnt/tree", False), *uv.shared()]
    if arguments.deb:
        shared.append((stages.exchange(arguments.suite, "shell", results.folder()), "/mnt/host", True))
    with container.Container(arguments.suite, shared=shared, has_network=arguments.network) as guest:
        if arguments.deb:
            guest.run("sh", "/mnt/host/tests/prepare.sh", "/mnt/host/mcp-exec.deb", stdin=subprocess.DEVNULL)
        if command:
            return guest.run(*command, check=False).returncode
        return guest.run("/bin/bash", "-l", check=False, interactive=True).returncode


def cmd_deb(arguments):
    folder = package.build(arguments.suite, arguments.check)
    if arguments.lintian:
        package.lint(arguments.suite)
    if arguments.output:
        pathlib.Path(arguments.output).mkdir(parents=True, exist_ok=True)
        print(shutil.copy(package.deb(arguments.suite), arguments.output))
    else:
        for file in sorted(folder.iterdir()):
            print(file)
    return 0


def cmd_images(arguments):
    for suite in host.SUITES:
        if arguments.suite in (None, suite):
            for kind in ("run", "build"):
                print(images.image(kind, suite))
    print(vm.kernel()[0])
    return 0


def cmd_clean(arguments):
    entries = images.outdated()
    if arguments.everything and host.CACHE.is_dir():
        entries = list(host.CACHE.iterdir())
    for entry in entries:
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry, ignore_errors=True)
        else:
            entry.unlink(missing_ok=True)
        print(f"removed {entry}")
    return 0


def parser():
    top = argparse.ArgumentParser(
        prog="tests/run",
        description="Builds mcp-exec and tests it on a real systemd, in throw-away machines.",
        epilog=f"Images, packages and results are cached in {host.CACHE} (MCP_EXEC_TEST_CACHE).")
    verbs = top.add_subparsers(dest="verb", required=True, metavar="VERB")

    def verb(name, function, help, suite=None):
        made = verbs.add_parser(name, help=help, description=help)
        made.set_defaults(function=function)
        if suite:
            made.add_argument("--suite", choices=list(host.SUITES), default=suite,
                              help="Debian release")
        return made

    made = verb("demo", cmd_demo, "install the package on a real systemd and run Python through MCP",
                "trixie")
    made.add_argument("--machine", choices=("auto", "container", "vm"), default="auto",
                      help="auto: a container where this host has cgroup v2 controllers, else the vm")
    verb("all", cmd_all, "every test, on every release")
    for tier in ("unit", "protocol", "lint"):
        made = verb(tier, cmd_tier, f"the {tier} tests, no machine is booted")
        made.add_argument("--compiler", choices=list(stages.COMPILER_OPTIONS), default="gcc")
        made.add_argument("name", nargs="*", help="names of meson tests")
    verb("conformance", cmd_conformance, "the official conformance suite and real clients (needs the npm registry)")
    made = verb("index", cmd_index, "scripts with real packages in a container (needs the package index)", "trixie")
    made.add_argument("name", nargs="*", help="parts of the names of tests")
    made = verb("container", cmd_container, "system tests in a container", "trixie")
    made.add_argument("--quick", action="store_true", help="leave out the slow ones")
    made.add_argument("--life", action="store_true",
                      help="the tests of installation, upgrade and removal instead")
    made.add_argument("name", nargs="*", help="parts of the names of tests")
    made = verb("vm", cmd_vm, "system tests in a virtual machine (no KVM needed)", "trixie")
    made.add_argument("--quick", action="store_true", help="leave out the slow ones")
    made.add_argument("name", nargs="*", help="parts of the names of tests")
    made = verb("shell", cmd_shell, "a shell or a command in a fresh machine (the tree is at /mnt/tree)",
                "trixie")
    made.add_argument("--machine", choices=("container", "vm"), default="container")
    made.add_argument("--deb", action="store_true", help="with the package installed and started")
    made.add_argument("--network", action="store_true", help="a container with this host's network")
    made.add_argument("command", nargs=argparse.REMAINDER, help="-- COMMAND [ARGUMENT...]")
    own = host.os_release().get("VERSION_CODENAME")
    made = verb("deb", cmd_deb, "build the Debian package and print where it is (default: of this host's release)",
                own if own in host.SUITES else "trixie")
    made.add_argument("--output", metavar="DIR", help="copy the .deb to this directory")
    made.add_argument("--check", action="store_true", help="run the unit tests in the build")
    made.add_argument("--lintian", action="store_true", help="run lintian")
    made = verb("images", cmd_images, "build the images now")
    made.add_argument("--suite", choices=list(host.SUITES), help="Debian release (default: all)")
    made = verb("clean", cmd_clean, "remove cached images that no recipe uses any more")
    made.add_argument("--everything", action="store_true", help="the whole cache")
    return top


def main():
    # At once, also while threads wait for their machines: the kernel ends those (their death signal) and takes the
    # mounts away with our mount namespace.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda received, _: os._exit(128 + received))
    os.umask(0o022)
    arguments = parser().parse_args()
    try:
        return arguments.function(arguments)
    except host.Failed as error:
        print(f"tests/run: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
