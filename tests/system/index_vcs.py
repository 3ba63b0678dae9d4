# SPDX-License-Identifier: MIT
"""A package out of a git repository, where an administrator allows that. In the machine that has a network, for git is
installed there; the repository is served on loopback."""

import os
import shutil

import packages
import sources
from lib import Client, Skip, failed_units, sh, timeout
from packages import complete, nothing_is_left, output, refusal
from test_packages_sources import secure

LOOK = """
import os, json
report = json.dumps([os.environ.get("CREDENTIALS_DIRECTORY"), os.getuid() == 0, os.path.exists("/var/lib/mcp-exec/daemon")])
"""


@timeout(600)
def test_a_repository_is_fetched_and_built_where_that_is_allowed():
    if not shutil.which("git"):
        installed = sh("apt-get update && apt-get install -y --no-install-recommends git", check=False, timeout=400,
                       env=os.environ | {"DEBIAN_FRONTEND": "noninteractive"})
        if installed.returncode != 0:
            raise Skip("git cannot be installed in this machine")
    packages.HOST_UV = packages.pathlib.Path("/mnt/host/uv")
    with secure("AllowVcs=yes") as (index, directory), Client() as client:
        index.repositories = directory + "/git"
        os.mkdir(index.repositories)
        commit = sources.repository(index.repositories, "mx-vcs", LOOK)
        url = f"mx-vcs @ git+{index.top}git/mx-vcs.git"
        script = sources.without_network("mx_vcs", "report", index)
        assert output(client, script, f"{url}@{commit}") == "[null, false, false]\nno network\n"
        # The same wheel again is the same set.
        assert output(client, script, url) == "[null, false, false]\nno network\n"
        assert len(complete()) == 1, complete()
        part = sources.repository(index.repositories, "mx-part", folder="inside")
        sources.repository(index.repositories, "mx-whole", 'import os\nreport = os.listdir("part")',
                           module=f"{index.top}git/mx-part.git", module_commit=part)
        script = sources.without_network("mx_whole", "report", index)
        assert "inside" in output(client, script, f"mx-whole @ git+{index.top}git/mx-whole.git")
        text = refusal(client, url + "@no-such-branch")
        assert "no-such-branch" in text, text
        nothing_is_left()
        assert len(complete()) == 2, complete()
    assert failed_units() == []
