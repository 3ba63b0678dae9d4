# SPDX-License-Identifier: MIT
"""What the tests of packages are written with: a real uv, an index of wheels.py on loopback, and clients that ask for
sets. The index runs in the test's own process, so that its log of requests is at hand."""

import contextlib
import pathlib
import re
import shutil

import wheels
from lib import (Skip, configured, journal, journal_cursor, run_units, show, start_sockets, stop_services, text_of,
                 wait_until)

HOST_UV = next((path for path in map(pathlib.Path, ("/mnt/uv/uv", "/mnt/host/uv/uv")) if path.exists()), None)
UV = pathlib.Path("/opt/packages-test/uv")      # not below /usr: whoever uses it has it bound
SETS = pathlib.Path("/var/lib/mcp-exec/sets")
STATE = pathlib.Path("/var/lib/mcp-exec/daemon/known-sets")
SECONDS = 120                                   # for a call that prepares, on a busy machine
PARSES, FETCHES, INSTALLS = "reads what a script needs", "fetches packages", "installs packages"


def need_uv():
    if not HOST_UV:
        raise Skip("there is no uv in this machine (see tests/machine/uv.py)")
    if not UV.exists():
        UV.parent.mkdir(mode=0o755, exist_ok=True)
        shutil.copy(HOST_UV, UV)
        UV.chmod(0o755)


def names():
    """Names in the directory of sets, also of those that are not complete."""
    return sorted(p.name for p in SETS.iterdir() if not p.name.startswith("."))


def complete():
    return [name for name in names() if re.fullmatch("[0-9a-f]{64}", name)]


def forget_all():
    """As a machine that never prepared anything. The services must be stopped."""
    for name in names():
        shutil.rmtree(SETS / name)
    STATE.unlink(missing_ok=True)


@contextlib.contextmanager
def packages(*settings, index=None, index_url=None):
    """The services with a uv and an index (also given back); no set before and after."""
    need_uv()
    with contextlib.ExitStack() as stack:
        index = stack.enter_context(index or wheels.catalogue(wheels.Index()))
        stop_services()
        forget_all()
        stack.callback(start_sockets)
        stack.callback(forget_all)
        stack.callback(stop_services)
        lines = ["[Exec]", "PoolSize=0", "[Packages]", f"UvPath={UV}", f"IndexUrl={index_url or index.url}", *settings, ""]
        with configured("\n".join(lines)):
            yield index


def start(client, script, *dependencies, tool="execute_python", progress=True, **arguments):
    """Calls and returns at once. With progress, for without it a slow preparation goes on in the background."""
    arguments["code" if tool == "exec" else "script"] = script
    if dependencies:
        arguments["dependencies"] = list(dependencies)
    return client.start(tool, arguments, meta={"progressToken": f"p{id(arguments)}"} if progress else None)


def told(result):
    """structuredContent of a call that ran."""
    assert not result.get("isError") and "structuredContent" in result, text_of(result)
    return result["structuredContent"]


def run(client, script, *dependencies, **arguments):
    return told(start(client, script, *dependencies, **arguments).result(SECONDS))


def output(client, script, *dependencies, **arguments):
    """What a program printed that was fine."""
    result = run(client, script, *dependencies, **arguments)
    assert (result["status"], result["stderr"]) == ("ok", ""), result
    return result["stdout"]


def refusal(client, *dependencies, script="open('/tmp/ran', 'w')", **arguments):
    """The text of a call that did not run, for its packages cannot be had."""
    result = start(client, script, *dependencies, **arguments).result(SECONDS)
    assert result.get("isError") is True and "structuredContent" not in result, result
    return text_of(result)


def units_that(what):
    """Names of the units of one purpose that there are now."""
    return [unit for unit in run_units() if show(unit, "Description").get("Description", "").endswith(what)]


def wait_for_unit(what, seconds=60):
    return wait_until(lambda: units_that(what), seconds, f"a unit that {what}")[0]


class Preparations:
    """How many sets the daemon says it has prepared since."""

    def __init__(self):
        self.cursor = journal_cursor()

    def count(self):
        return sum("Prepared set of packages" in str(record.get("MESSAGE"))
                   for record in journal(after=self.cursor, _SYSTEMD_UNIT="mcp-exec.service"))


def nothing_is_left():
    """No unit of a preparation, and no half-made set."""
    wait_until(lambda: names() == complete() and not run_units(), 30, "nothing is left of preparations")
