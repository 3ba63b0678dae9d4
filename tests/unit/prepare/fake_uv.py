# SPDX-License-Identifier: MIT
"""Plays uv: answers as played.json beside it says, and unpacks wheels in the simplest way. Keeps its arguments and its
environment in called.json."""

import json
import os
import pathlib
import shutil
import sys
import zipfile

here = pathlib.Path(__file__).resolve().parent
played = json.loads((here / "played.json").read_text())
(here / "called.json").write_text(json.dumps({"arguments": sys.argv[1:], "environment": dict(os.environ)}))


def option(name):
    return sys.argv[sys.argv.index(name) + 1]


if sys.argv[1:3] == ["pip", "compile"]:
    if played["lock"]:
        pathlib.Path(option("-o")).write_text(played["lock"])
elif sys.argv[1:3] == ["python", "install"] and played["status"] == 0:
    minor = sys.version_info[1]
    top = pathlib.Path(option("--install-dir"))
    (top / f"cpython-3.{minor}.0-linux/bin").mkdir(parents=True)
    (top / f"cpython-3.{minor}.0-linux/bin/python3.{minor}").symlink_to(sys.executable)
    (top / f"cpython-3.{minor}-linux").symlink_to(f"cpython-3.{minor}.0-linux")
    (top / ".temp").mkdir()
    (top / ".lock").touch()
elif sys.argv[1:3] == ["pip", "install"] and played["status"] == 0:
    site = pathlib.Path(option("--prefix"), "lib", "python3.%d" % sys.version_info[1], "site-packages")
    site.mkdir(parents=True)
    for wheel in pathlib.Path(option("--find-links")).iterdir():
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(site)
    for data in site.glob("*.data/data"):
        shutil.copytree(data, option("--prefix"), dirs_exist_ok=True)
sys.stderr.write(played["stderr"])
sys.exit(played["status"])
