# SPDX-License-Identifier: MIT
"""A writable view of an image: an overlay with its upper half in a tmpfs, so that changes vanish with it.

The mounts live in the caller's own mount namespace (tests/run sees to that) and die with the process."""

import pathlib
import shutil
import subprocess
import tempfile
import uuid

import host


class Overlay:
    """On entering, `root` is the writable tree and `work` a directory beside it in the same tmpfs."""

    def __init__(self, image, size="6G"):
        self.image, self.size = image, size
        self._bound = []

    def __enter__(self):
        self.work = pathlib.Path(tempfile.mkdtemp(prefix="mcp-exec-machine."))
        self.root = self.work / "root"
        try:
            host.run("mount", "-t", "tmpfs", "-o", f"mode=0755,size={self.size}", "test-machine", self.work)
            for name in ("upper", "work", "root"):
                (self.work / name).mkdir()
            options = f"lowerdir={self.image},upperdir={self.work}/upper,workdir={self.work}/work"
            done = subprocess.run(["mount", "-t", "overlay", "-o", options, "test-machine", str(self.root)],
                                  capture_output=True)
            if done.returncode != 0:
                host.say("no overlay file system here, copying the image")
                host.run("cp", "-a", f"{self.image}/.", self.root)
            self._give_id()
        except BaseException:
            self.__exit__()
            raise
        return self

    def _give_id(self):
        """An image has none: mmdebstrap empties the file when it has made a tree."""
        path = self.root / "etc" / "machine-id"
        if path.exists() and not path.read_text().strip():
            path.write_text(uuid.uuid4().hex + "\n")

    def bind(self, source, name):
        """Shows a directory of the host at a path of the tree."""
        target = self.root / name
        target.mkdir(parents=True, exist_ok=True)
        host.run("mount", "--bind", source, target)
        self._bound.append(target)

    def __exit__(self, *_):
        for path in [*reversed(self._bound), self.root, self.work]:
            subprocess.run(["umount", "-l", str(path)], stderr=subprocess.DEVNULL)
        shutil.rmtree(self.work, ignore_errors=True)
