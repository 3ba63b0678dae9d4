# SPDX-License-Identifier: MIT
"""remove: empties the directory of a set, in whatever state it is.

Whoever may have written there, nothing is followed, no path is longer than two names, and a directory that may not be
read is made readable first. Order and answer are in README.md beside the source.
"""

import json
import os
import sys
import time

ORDER_BYTES_MAX = 8 << 20


class TooLate(Exception):
    """The budget is used up; what is left is left."""


class Remover:
    def __init__(self, prefix, budget_s):
        self.top = os.open(prefix, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        self.deadline = time.monotonic() + budget_s
        self.n_removed = 0
        self.n_renamed = 0

    def names(self):
        with os.scandir(self.top) as entries:
            return [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]

    def unlink(self, name, directory):
        os.unlink(name, dir_fd=directory)
        self.n_removed += 1

    def empty(self, name):
        """Removes a directory of the top. Directories in it become directories of the top, to be removed later: so
        depth does not matter."""
        os.chmod(name, 0o700, dir_fd=self.top)
        directory = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=self.top)
        try:
            with os.scandir(directory) as entries:
                children = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]
            for child, is_directory in children:
                if time.monotonic() > self.deadline:
                    raise TooLate
                if not is_directory:
                    self.unlink(child, directory)
                    continue
                # Moving a directory writes its "..".
                os.chmod(child, 0o700, dir_fd=directory)
                os.rename(child, self.fresh_name(), src_dir_fd=directory, dst_dir_fd=self.top)
        finally:
            os.close(directory)
        os.rmdir(name, dir_fd=self.top)
        self.n_removed += 1

    def fresh_name(self):
        while True:
            self.n_renamed += 1
            name = f".removed-{self.n_renamed}"
            try:
                os.lstat(name, dir_fd=self.top)
            except FileNotFoundError:
                return name

    def run(self):
        while entries := self.names():
            for name, is_directory in entries:
                if time.monotonic() > self.deadline:
                    raise TooLate
                if is_directory:
                    self.empty(name)
                else:
                    self.unlink(name, self.top)


def main():
    order = json.loads(sys.stdin.buffer.read(ORDER_BYTES_MAX))
    os.write(2, b"@ removing\n")
    try:
        remover = Remover(order.get("prefix") or "/env", order.get("budget_s") or 300)
        remover.run()
        answer = {"n_removed": remover.n_removed}
    except TooLate:
        answer = {"error": {"kind": "timeout", "message": "The set could not be removed in time."}}
    except OSError as e:
        answer = {"error": {"kind": "internal", "message": f"The set cannot be removed: {e.strerror}."}}
    sys.stdout.write(json.dumps(answer, ensure_ascii=True) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
