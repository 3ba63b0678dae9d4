# SPDX-License-Identifier: MIT
"""Which interpreters a machine has."""

import functools
import os
import pathlib
import re


@functools.cache
def pythons():
    """Paths of the interpreters that this machine has, the default one first."""
    default = os.path.realpath("/usr/bin/python3")
    others = [str(path) for path in pathlib.Path("/usr/bin").glob("python3.*") if re.fullmatch(r"python3\.\d+", path.name)]
    return [default, *sorted(path for path in others if os.path.realpath(path) != default)]
