# SPDX-License-Identifier: MIT
"""The runner: brings a program into an interpreter that is just starting.

Installed as sitecustomize.py and imported by the site module, before the interpreter opens the script it was started
with ("main.py", a relative name that does not exist yet). It says READY on the control socket (fd 0), receives the
program, its standard input and its files, puts them in place, and leaves by an ImportError that site takes for "there
is no sitecustomize". Then the interpreter runs main.py as it runs any script, and no frame, module, descriptor or
variable of ours is left. The protocol and the reasons are in README.md beside the source.

Standard library only, and of that only what is built into the interpreter or loaded by it anyway: each import here is
paid by every run. Python 3.11 and later.
"""

import _io
import _socket
import atexit
import fcntl
import posix
import sys

CONTROL_FD = 0
READY = b"MXREADY\n"
CODE = b"MXCODE2\n"
HEADER_BYTES = 32

# Numbers of src/runner/checks.h; a unit test compares them.
EXIT_CHECK = 100
CHECK_CONTROL = 2
CHECK_INTERPRETER = 4

# What the kernel lets an unprivileged process make of a pipe (/proc/sys/fs/pipe-max-size, by default).
PIPE_BYTES_MAX = 1 << 20
PIPE_BYTES_DEFAULT = 1 << 16
CHUNK_BYTES = 1 << 18
MFD_NOEXEC_SEAL = 8
FILE_NAME_BYTES_MAX = 255
OPEN_UP_ENTRIES_MAX = 1000


class Malformed(Exception):
    """The daemon's message is not what the protocol says."""


def give_up(status, reason):
    """Ends this process at once: nothing may fall through to an interpreter that goes on without its program."""
    try:
        posix.write(2, f"mcp-exec: {reason}\n".encode(errors="replace"))
    finally:
        posix._exit(status)


def say_ready(work):
    """Tells the daemon that this interpreter is up, with the directory in which the run's files will be."""
    directory = posix.open(work, posix.O_RDONLY | posix.O_DIRECTORY | posix.O_CLOEXEC)
    # The socket object would close fd 0 at its end: detach() lets it go.
    control = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM, 0, CONTROL_FD)
    try:
        rights = (_socket.SOL_SOCKET, _socket.SCM_RIGHTS, directory.to_bytes(4, sys.byteorder))
        control.sendmsg([READY], [rights])
    finally:
        control.detach()
        posix.close(directory)


def read_some(n_bytes):
    """Up to n_bytes of the message. At the end of the stream this unit is not needed: it goes without a word."""
    try:
        data = posix.read(CONTROL_FD, min(n_bytes, CHUNK_BYTES))
    except ConnectionResetError:  # a daemon that ends before it has read READY
        data = b""
    if not data:
        posix._exit(0)
    return data


def read_exactly(n_bytes):
    """Exactly n_bytes of the message, in memory once."""
    buffer = bytearray(n_bytes)
    view = memoryview(buffer)
    n_done = 0
    while n_done < n_bytes:
        try:
            n = posix.readv(CONTROL_FD, [view[n_done:]])
        except ConnectionResetError:
            n = 0
        if n == 0:
            posix._exit(0)
        n_done += n
    return buffer


def read_number(n_bytes):
    return int.from_bytes(read_exactly(n_bytes), "little")


def write_all(fd, data):
    view = memoryview(data)
    while view:
        view = view[posix.write(fd, view):]


def create(path):
    """A new file for the program. O_EXCL: two files of one name would be a message that contradicts itself."""
    return posix.open(path, posix.O_WRONLY | posix.O_CREAT | posix.O_EXCL | posix.O_NOFOLLOW | posix.O_CLOEXEC, 0o644)


def write_file(path, data):
    fd = create(path)
    try:
        write_all(fd, data)
    finally:
        posix.close(fd)


def attempt(lost, action, *arguments):
    """What cannot be put in place is told in the end, when the whole message has been read: a daemon that cannot get rid of
    it would take this unit for one that never began, and our words for nobody's."""
    try:
        return action(*arguments)
    except OSError as error:
        lost.append(error)
        return None


def receive_file(work, lost):
    """One file from the message into the working directory, without ever holding all of it in memory."""
    name_bytes = read_number(4)
    n_left = read_number(8)
    if not 0 < name_bytes <= FILE_NAME_BYTES_MAX:
        raise Malformed
    # Checked by the daemon as well. A name that is a path would write elsewhere in the sandbox.
    name = bytes(read_exactly(name_bytes))
    if b"/" in name or b"\0" in name or name in (b".", b"..", b"main.py"):
        raise Malformed
    fd = attempt(lost, create, work.encode() + b"/" + name)
    while n_left:
        data = read_some(n_left)
        if not lost:
            attempt(lost, write_all, fd, data)
        n_left -= len(data)
    if fd is not None:
        posix.close(fd)


def make_pipe_stdin(data):
    """A pipe that holds all of data and has no writer any more, or None where the kernel does not give one so large.

    A pipe rather than a file because asyncio can watch it."""
    reader, writer = posix.pipe2(posix.O_CLOEXEC | posix.O_NONBLOCK)
    try:
        if len(data) > PIPE_BYTES_DEFAULT:
            fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, len(data))
        if data and posix.write(writer, data) != len(data):
            raise BlockingIOError
        # Non-blocking was for this side; the program's read() has to wait for the end of the file, not fail.
        fcntl.fcntl(reader, fcntl.F_SETFL, posix.O_RDONLY)
    except OSError:
        posix.close(reader)
        return None
    finally:
        posix.close(writer)
    return reader


def make_file_stdin(data):
    """A file in memory that nobody can change, open for reading from its start."""
    flags = posix.MFD_CLOEXEC | posix.MFD_ALLOW_SEALING
    try:
        fd = posix.memfd_create("stdin", flags | MFD_NOEXEC_SEAL)
    except OSError:
        # Linux before 6.3 does not know that flag; a later one may demand it (vm.memfd_noexec=2).
        fd = posix.memfd_create("stdin", flags)
    try:
        write_all(fd, data)
        seals = fcntl.F_SEAL_WRITE | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_SEAL
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, seals)
        return posix.open(f"/proc/self/fd/{fd}", posix.O_RDONLY | posix.O_CLOEXEC)
    finally:
        posix.close(fd)


def put_stdin(data):
    """Puts data on fd 0, which closes the control socket: from here on the daemon hears nothing of us."""
    fd = make_pipe_stdin(data) if len(data) <= PIPE_BYTES_MAX else None
    if fd is None:
        fd = make_file_stdin(data)
    posix.dup2(fd, CONTROL_FD)
    posix.close(fd)

    # The interpreter made sys.stdin for a socket. This is how it makes one (create_stdio in CPython's pylifecycle.c).
    binary = _io.open(CONTROL_FD, "rb", closefd=False)
    binary.raw.name = "<stdin>"
    old = sys.stdin
    text = _io.TextIOWrapper(binary, old.encoding, old.errors, "\n", write_through=old.write_through)
    text.mode = "r"
    sys.stdin = sys.__stdin__ = text


def prefer_fork():
    """Python 3.14 starts worker processes through a server on a socket, which the walls refuse. fork works.

    multiprocessing is not imported for this, it is expensive: a finder waits for it, once, and takes itself out."""

    class Finder:
        def find_spec(self, name, path=None, target=None):
            if name != "multiprocessing.context":
                return None
            sys.meta_path.remove(self)
            for finder in sys.meta_path:
                spec = finder.find_spec(name, path, target)
                if spec is not None:
                    break
            else:
                return None
            loader = spec.loader
            execute = loader.exec_module

            def exec_module(module):
                del loader.exec_module
                execute(module)
                # The default of the default context, so that set_start_method() still works as documented.
                module._default_context._default_context = module._concrete_contexts["fork"]

            loader.exec_module = exec_module
            return spec

    sys.meta_path.insert(0, Finder())


def open_up_at_exit(work):
    """Makes what the program wrote readable for the daemon, which collects it as another user after the end.

    tempfile, for one, makes files with mode 0600. A killed program keeps them so; the daemon then says that it could
    not read them. Bounded, silent, and only in the process that ran main.py. The names are bound now: the program
    may replace functions of os, and at exit modules are half gone."""
    scandir, chmod, getpid = posix.scandir, posix.chmod, posix.getpid
    process = getpid()

    def open_up():
        if getpid() != process:
            return
        directories = [work]
        n_left = OPEN_UP_ENTRIES_MAX
        try:
            while directories:
                with scandir(directories.pop()) as entries:
                    for entry in entries:
                        n_left -= 1
                        if n_left < 0:
                            return
                        is_directory = entry.is_dir(follow_symlinks=False)
                        if not is_directory and not entry.is_file(follow_symlinks=False):
                            continue
                        mode = entry.stat(follow_symlinks=False).st_mode & 0o7777
                        wanted = mode | (0o555 if is_directory else 0o444)
                        if wanted != mode:
                            chmod(entry.path, wanted)
                        if is_directory:
                            directories.append(entry.path)
        except BaseException:  # also KeyboardInterrupt: the program's exit must stay its own
            pass

    atexit.register(open_up)


def is_in_set(environ):
    """Whether this is the interpreter of the packages that the program uses. init has received the program then, before
    anything of them could be imported; what they bring (.pth files, a sitecustomize) is the program's."""
    return sys.prefix == environ.get("VIRTUAL_ENV")


def forget_ourselves(environ):
    """Removes what led the interpreter here. Child interpreters must not come here again."""
    here = environ.pop("PYTHONPATH")
    sys.path[:] = [entry for entry in sys.path if entry != here]
    sys.path_importer_cache.pop(here, None)


def receive_program(work):
    """The whole message of the daemon: everything in place, and the control socket closed."""
    header = bytes(read_exactly(HEADER_BYTES))
    code_bytes, stdin_bytes, n_files = (int.from_bytes(header[i:i + 8], "little") for i in (8, 16, 24))
    if header[:8] != CODE:
        raise Malformed

    lost = []
    attempt(lost, write_file, work + "/main.py", read_exactly(code_bytes))
    stdin = read_exactly(stdin_bytes)
    for _ in range(n_files):
        receive_file(work, lost)
    if lost:
        raise lost[0]
    put_stdin(stdin)


def run(environ):
    work = environ["TMPDIR"] + "/work"
    say_ready(work)
    try:
        receive_program(work)
    except OSError as error:
        # Most likely the tmpfs cannot hold what the daemon sent; the caller can do something about it.
        give_up(1, f"the program could not be put in place: {error.strerror}")

    settle(work, environ)


def settle(work, environ):
    """The last steps, in the interpreter that will run main.py."""
    forget_ourselves(environ)
    if sys.version_info >= (3, 14):
        prefer_fork()
    open_up_at_exit(work)

    # Tracebacks name the script as the interpreter was started with it, "main.py". __file__ is absolute, as ever
    # since 3.9: multiprocessing's spawn and programs that look beside themselves rely on it.
    main = sys.modules["__main__"]
    main.__file__ = work + "/main.py"
    main.__cached__ = None
    posix.chdir(work)


if __name__ == "sitecustomize":
    import os

    in_set = is_in_set(os.environ)
    try:
        if in_set:
            settle(os.environ["TMPDIR"] + "/work", os.environ)
        else:
            run(os.environ)
    except Malformed:
        give_up(EXIT_CHECK + CHECK_CONTROL, "a malformed message came from the daemon")
    except BaseException as error:
        give_up(EXIT_CHECK + CHECK_INTERPRETER, f"the runner does not work in this interpreter: {error!r}")
    if in_set:
        # The packages may have one of their own, which this one has hidden. It takes this module's place.
        del sys.modules["sitecustomize"]
        import sitecustomize  # noqa: F401, pylint: disable=import-self,unused-import
    else:
        # site takes exactly this for "there is none", and the import system forgets the module.
        raise ImportError(name="sitecustomize")
