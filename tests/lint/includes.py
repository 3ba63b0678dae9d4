#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Which room may include what. The rooms are the folders of src/; src/README.md draws the picture."""

import re

import source

# Room -> the rooms it may include beside itself. Nobody is above server, nobody below base.
ROOMS = {
    "base": set(),
    "json": {"base"},
    "wire": {"base"},
    "runner": set(),
    "auth": {"base"},
    "launch": {"wire", "base"},
    "exec": {"wire", "base"},
    "python": {"exec", "json", "base"},
    "mcp": {"json", "base"},
    "tool": {"python", "exec", "json", "base"},
    "transport": {"mcp", "json", "auth", "base"},
    "server": {"transport", "auth", "tool", "python", "mcp", "json", "exec", "wire", "base"},
}

# Single headers that may cross: (room, header) -> why.
EXCEPTIONS = {
    ("launch", "runner/checks.h"): "the table that turns the self-test's exit status into a sentence",
    ("exec", "runner/checks.h"): "the same, of a check that failed in a run",
    ("runner", "base/macro.h"): "macros only; init must link nothing but libc",
    ("tool", "mcp/mcp.h"): "the struct of operations through which mcp knows tools",
}

# Header outside the tree -> rooms, or single files, that may include it. What is not here is not a dependency.
FOREIGN = {
    "cjson/cJSON.h": {"json"},
    "microhttpd.h": re.compile(r"transport/http[^/]*$"),
    "nettle/memops.h": {"base/digest.c"},
    "nettle/sha2.h": {"base/digest.c"},
    "nettle/version.h": {"base/digest.c"},
    "systemd/sd-bus.h": {"launch"},
    "systemd/sd-daemon.h": {"launch", "server"},
    "systemd/sd-event.h": {"exec", "python", "launch", "tool", "transport", "server"},
    "systemd/sd-id128.h": {"launch", "transport", "server"},
    "systemd/sd-journal.h": {"base/log.c"},
    "systemd/sd-login.h": {"launch", "server"},
}

LIBC = set("""
    arpa/inet.h assert.h ctype.h dirent.h endian.h errno.h fcntl.h getopt.h grp.h inttypes.h limits.h
    linux/filter.h linux/io_uring.h linux/keyctl.h linux/magic.h linux/openat2.h linux/seccomp.h
    linux/sockios.h net/if.h netdb.h
    netinet/in.h netinet/tcp.h poll.h pwd.h sched.h signal.h spawn.h stdarg.h stdatomic.h stdbool.h stddef.h
    stdint.h stdio.h stdlib.h string.h strings.h sys/epoll.h sys/eventfd.h sys/file.h sys/inotify.h
    sys/ioctl.h sys/mman.h sys/mount.h sys/prctl.h sys/ptrace.h sys/random.h sys/resource.h sys/sendfile.h
    sys/shm.h sys/signalfd.h sys/socket.h sys/stat.h sys/statfs.h sys/statvfs.h sys/syscall.h sys/sysmacros.h
    sys/time.h sys/timerfd.h sys/types.h sys/uio.h sys/un.h sys/utsname.h sys/vfs.h sys/wait.h sys/xattr.h
    syslog.h termios.h time.h unistd.h
""".split())

INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"]+)[>"]', re.MULTILINE)


def judge(name, bracket, header):
    """One include of src/NAME. Returns what is wrong, or None."""
    room = name.split("/")[0]
    if bracket == '"':
        if header == "config.h":
            return None
        target = header.split("/")[0]
        if "/" not in header or header.startswith("."):
            return f'write "room/{header}"'
        if target not in ROOMS:
            return f"{target}/ is not a room"
        if target != room and target not in ROOMS[room] and (room, header) not in EXCEPTIONS:
            return f"{room}/ may not include {target}/"
        return None
    if header in LIBC:
        return None
    if header not in FOREIGN:
        return f"<{header}> is not a dependency of this project"
    allowed = FOREIGN[header]
    if allowed.match(name) if isinstance(allowed, re.Pattern) else room in allowed or name in allowed:
        return None
    return f"{name} may not include <{header}>"


def check_text(name, text):
    room = name.split("/")[0]
    if "/" in name and room not in ROOMS:
        return [f"src/{name}:1: {room}/ is not a room; add it to ROOMS and to src/README.md"]
    problems = []
    code = source.without_comments(text)
    for m in INCLUDE.finditer(code):
        what = judge(name, m.group(1), m.group(2))
        if what:
            problems.append(f"src/{name}:{code.count(chr(10), 0, m.start()) + 1}: {what}")
    return problems


def check(root):
    problems = []
    n = 0
    for name in source.tracked_files(root):
        if name.startswith("src/") and name.endswith(source.C_SUFFIXES):
            problems += check_text(name[len("src/"):], source.read(root, name))
            n += 1
    return problems if n > 0 else ["src:1: no source found"]


if __name__ == "__main__":
    source.run(check)
