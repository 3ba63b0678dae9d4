# SPDX-License-Identifier: MIT
"""remove: empties the directory of a set, in whatever state it is.

Whoever may have written there, nothing is followed, no path is longer than two names, and a directory that may not be
read is made readable first. Order and answer are in README.md beside the source.
"""

import os
import time

from common import Failed, error_answer, progress, read_order, write_answer

DEFAULTS = {"prefix": "/env", "budget_s": 300}


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
                    raise Failed("timeout", "The set could not be removed in time; what is left is removed by the next attempt.")
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
                    raise Failed("timeout", "The set could not be removed in time; what is left is removed by the next attempt.")
                if is_directory:
                    self.empty(name)
                else:
                    self.unlink(name, self.top)


def main():
    order = read_order(DEFAULTS)
    progress("removing")
    try:
        remover = Remover(order["prefix"], order["budget_s"])
        remover.run()
        answer = {"n_removed": remover.n_removed}
    except (Failed, OSError) as e:
        answer = error_answer(e, "The set cannot be removed")
    write_answer(answer)


if __name__ == "__main__":
    main()
