# SPDX-License-Identifier: MIT
"""What a set costs, and when it goes: sizes and ages on a real disk, and how many units a script starts."""

import json
import os
import re
import time

import wheels
from births import Births
from lib import Client, one_release, start_sockets, stop_services, timeout, wait_until
from packages import SETS, STATE, complete, names, nothing_is_left, output, packages, refusal, run

MIB = 1 << 20


def set_of(client, module, dependency):
    """Name of the set that a script with this dependency uses, new or not."""
    before = set(complete())
    assert output(client, f"import {module}; print(1)", dependency) == "1\n"
    nothing_is_left()
    return set(complete()) - before


@timeout(180)
def test_another_script_with_the_same_block_starts_its_own_unit_and_no_other():
    block = '# /// script\n# dependencies = ["mx-demo"]\n# ///\n'
    with packages() as index, Client() as client:
        assert output(client, block + "import mx_demo; mx_demo.main()") == "demo 2.0\n"
        n_requests = len(index.requests)
        for tool, code in (("execute_python", "import mx_base; print(mx_base.x)\n"), ("exec", "print(6 * 7)\n"),
                           ("execute_python", "def f():\n    # a comment\n    return 'x'\nprint(f())\n")):
            with Births() as births:
                assert run(client, block + code, tool=tool)["status"] == "ok", code
                assert len(births.names()) == 1, (code, births.names())
        # Another spelling of the block is read once, and leads to the same set.
        other = block.replace('"mx-demo"', '"MX_Demo"')
        for n_units in 2, 1:
            with Births() as births:
                assert output(client, other + "import mx_demo; mx_demo.main()") == "demo 2.0\n"
                assert len(births.names()) == n_units, births.names()
        assert len(complete()) == 1 and len(index.requests) == n_requests > 0, index.requests


@timeout(240)
@one_release
def test_sets_beyond_their_size_go_longest_unused_first():
    with packages("SetsMaxBytes=64M") as index, Client() as client:
        for name in "one", "two", "three":
            index.add(wheels.wheel(f"mx-{name}", "1.0", {f"mx_{name}.py": "", f"mx_{name}.bin": os.urandom(28 * MIB)}))
        (one,) = set_of(client, "mx_one", "mx-one")
        (two,) = set_of(client, "mx_two", "mx-two")
        assert sorted(complete()) == sorted([one, two])
        # The first is used again, so that the second goes.
        assert set_of(client, "mx_one", "mx-one") == set()
        (three,) = set_of(client, "mx_three", "mx-three")
        wait_until(lambda: sorted(names()) == sorted([one, three]), 30, "the one that was not used for longest is gone")
        # It comes back when it is asked for.
        assert set_of(client, "mx_two", "mx-two") == {two}
        wait_until(lambda: sorted(names()) == sorted([two, three]), 30, "the next one is gone")


@timeout(180)
@one_release
def test_a_set_that_is_too_large_is_refused_and_leaves_nothing():
    with packages("PrepareBytesMax=8M") as index, Client() as client:
        index.add(wheels.wheel("mx-large-file", "1.0", {"mx_large.bin": os.urandom(9 * MIB)}))
        index.add(wheels.wheel("mx-large-set", "1.0", {"mx_large.txt": "x" * 9 * MIB}))
        for dependency in "mx-large-file", "mx-large-set":
            text = refusal(client, dependency)
            assert re.search("too large|larger than|MiB are allowed", text), text
            nothing_is_left()
            assert names() == [], names()


@timeout(180)
@one_release
def test_sets_that_nobody_used_for_a_month_go():
    with packages():
        with Client() as client:
            (old,) = set_of(client, "mx_base", "mx-base")
            (young,) = set_of(client, "mx_demo", "mx-demo==1.0")
        stop_services()
        # As if they had been made, and last used, so many days ago.
        STATE.unlink()
        for name, days in (old, 31), (young, 29):
            path = SETS / name / "mcp-exec-set.json"
            facts = json.loads(path.read_text())
            facts["created_usec"] = int((time.time() - days * 24 * 3600) * 1000000)
            path.write_text(json.dumps(facts))
        start_sockets()
        with Client() as client:
            assert output(client, "import mx_demo; mx_demo.main()", "mx-demo==1.0") == "demo 1.0\n"
            wait_until(lambda: names() == [young], 30, "the old one is gone, the young one is not")
