# SPDX-License-Identifier: MIT
"""The interpreter that a set is for, and which wheels it takes."""

import re
import subprocess

from common import Failed, canonical

ABOUT_PROGRAM = """
import os, platform, sys, sysconfig
try:
    libc = os.confstr("CS_GNU_LIBC_VERSION") or ""
except (ValueError, OSError):
    libc = ""
print(sys.implementation.name, platform.python_version(), platform.machine(), sysconfig.get_config_var("SOABI") or "-",
      libc.replace(" ", "-") or "-", int(sys.maxsize > 2**32))
"""


class Target:
    """Which wheels an interpreter takes, best first."""

    def __init__(self, python):
        try:
            done = subprocess.run([python, "-I", "-S", "-c", ABOUT_PROGRAM], stdin=subprocess.DEVNULL,
                                  capture_output=True, timeout=30)
            words = done.stdout.decode("ascii", "replace").split()
            name, self.version, machine, soabi, libc, is_64_bit = words
        except (OSError, subprocess.SubprocessError, ValueError):
            raise Failed("python", f"The interpreter {python} does not work; the administrator has to look after it."
                         ) from None
        if name != "cpython":
            raise Failed("python", f"The interpreter {python} is {name}; packages are prepared for CPython only.")
        self.minor = int(self.version.split(".")[1])
        self.is_threaded = re.match(rf"cpython-3{self.minor}t", soabi) is not None
        if machine == "x86_64" and is_64_bit == "0":
            machine = "i686"
        self.ranks = {}
        for tag in self.tags(list(self.platforms(machine, libc))):
            self.ranks.setdefault(tag, len(self.ranks))

    @staticmethod
    def platforms(machine, libc):
        glibc = re.fullmatch(r"glibc-2\.(\d+)", libc)
        if glibc:
            oldest = 5 if machine in ("x86_64", "i686") else 17
            names = {17: "manylinux2014", 12: "manylinux2010", 5: "manylinux1"}
            for minor in range(min(int(glibc[1]), 200), oldest - 1, -1):
                yield f"manylinux_2_{minor}_{machine}"
                if minor in names:
                    yield f"{names[minor]}_{machine}"
        else:
            for minor in range(9, -1, -1):
                yield f"musllinux_1_{minor}_{machine}"
        yield f"linux_{machine}"

    def tags(self, platforms):
        """As the standard orders them: the most special first."""
        me = f"cp3{self.minor}"
        abi = me + "t" if self.is_threaded else me
        stable = [] if self.is_threaded else ["abi3"]
        for each in (abi, *stable, "none"):
            yield from ((me, each, platform) for platform in platforms)
        for minor in range(self.minor - 1, 1, -1):
            for each in stable:
                yield from ((f"cp3{minor}", each, platform) for platform in platforms)
        generic = [f"py3{self.minor}", "py3", *(f"py3{minor}" for minor in range(self.minor - 1, -1, -1))]
        for each in generic:
            yield from ((each, "none", platform) for platform in platforms)
        yield me, "none", "any"
        yield from ((each, "none", "any") for each in generic)

    def rank(self, file):
        """How good a wheel's file is, smaller is better, by its name; None: not for this interpreter."""
        parts = file.removesuffix(".whl").split("-")
        pythons, abis, platforms = (part.split(".") for part in parts[-3:])
        if len(pythons) * len(abis) * len(platforms) > 1000:
            return None
        ranks = [self.ranks[tag] for python in pythons for abi in abis for platform in platforms
                 if (tag := (python, abi, platform)) in self.ranks]
        if not ranks:
            return None
        build = re.match(r"\d{1,9}", parts[2]) if len(parts) == 6 else None
        return min(ranks), -int(build[0]) if build else 0


def is_wheel(file, name):
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._+!-]{0,240}\.whl", file):
        return False
    parts = file.removesuffix(".whl").split("-")
    return len(parts) in (5, 6) and canonical(parts[0]) == name
