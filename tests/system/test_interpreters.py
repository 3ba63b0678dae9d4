# SPDX-License-Identifier: MIT
"""Two interpreters of different versions in one machine: each script gets the one it asks for, and packages for it."""

import json
import pathlib
import pwd

import wheels
from interpreters import pythons
from lib import Client, Skip, StdioClient, needs, sh, text_of, timeout
from packages import UV, complete, names, output, packages, refusal, run

LOOK = """
import json, os, sys
try:
    import mx_tagged
    tag, cached = mx_tagged.tag, os.path.basename(mx_tagged.__cached__)
    compiled = os.path.exists(mx_tagged.__cached__)
except ImportError:
    tag = cached = compiled = None
print(json.dumps(["%d.%d.%d" % sys.version_info[:3], os.path.realpath(sys.executable), sys.prefix, tag, cached, compiled]))
"""


def two_pythons():
    """The default one and another: only the newest of the releases has any."""
    if len(pythons()) < 2:
        raise Skip("this release has one version of Python only")
    return pythons()[:2]


def version_of(path):
    return sh([path, "-c", "import platform; print(platform.python_version())"]).stdout.strip()


def minor_of(version):
    return ".".join(version.split(".")[:2])


def block(requires, *dependencies):
    return f"# /// script\n# requires-python = \"{requires}\"\n# dependencies = {json.dumps(dependencies)}\n# ///\n"


def expected(path, has_set):
    version = version_of(path)
    tag = "cp" + minor_of(version).replace(".", "")
    in_set = ["/env", tag, f"mx_tagged.{tag.replace('cp', 'cpython-')}.pyc", True]
    return [version.split("rc")[0], path, *(in_set if has_set else ["/usr", None, None, None])]


def tagged(index):
    """A wheel for each, as of a package that is compiled for every version."""
    for path in pythons():
        tag = "cp" + minor_of(version_of(path)).replace(".", "")
        index.add(wheels.wheel("mx-tagged", "1.0", {"mx_tagged.py": f"tag = {tag!r}\n"}, tag=f"{tag}-none-any"))


@timeout(240)
@needs("systemd>=258")
def test_each_script_gets_the_python_it_requires_and_packages_for_it():
    default, other = two_pythons()
    versions = {path: version_of(path) for path in (default, other)}
    assert minor_of(versions[default]) != minor_of(versions[other]), versions
    with packages(f"ExtraPythons={other}") as index, Client() as client:
        tagged(index)
        for path in default, other, default, other:
            script = block(f"=={minor_of(versions[path])}.*", "mx-tagged") + LOOK
            assert json.loads(output(client, script)) == expected(path, True), (path, versions)
        # A set for each, and without a word about versions the default.
        assert len(complete()) == 2, names()
        assert json.loads(output(client, LOOK, "mx-tagged")) == expected(default, True)
        assert json.loads(output(client, block(f"=={versions[other]}") + LOOK)) == expected(other, False)
        assert json.loads(output(client, LOOK)) == expected(default, False)
        assert len(complete()) == 2, names()

        listed = json.loads(sh(["mcp-exec", "env", "list", "--json"]).stdout)
        assert sorted(each["python"] for each in listed) == sorted(versions.values()), listed
        for path in default, other:
            told = client.call("validate_script", {"script": block(f"~={minor_of(versions[path])}.0", "mx-tagged")})
            assert f"\ninterpreter: {path if path == other else '/usr/bin/python3'} (Python {versions[path]})\n" \
                in text_of(told), told
            assert told["structuredContent"]["environment"] == "ready", told
        text = text_of(client.call("check_environment", {}))
        assert f"Python version: {versions[default]} (/usr/bin/python3)\n" in text, text
        assert f"\nInterpreters: {versions[default]} (/usr/bin/python3), {versions[other]} ({other})\n" in text, text

        assert "No interpreter fits" in refusal(client, script=block("<3.5", "mx-tagged"))
        # The syntax is that of the interpreter that would serve: "except*" is of 3.11, a template string of 3.14.
        if (minor_of(versions[default]), minor_of(versions[other])) == ("3.14", "3.13"):
            for requires, word in (">=3.14", "VALID"), ("<3.14", "INVALID"):
                text = text_of(client.call("validate_script", {"script": block(requires) + "x = t'{1}'\n"}))
                assert text.split("\n")[0].split(":")[0] == word, (requires, text)


@timeout(240)
@needs("systemd>=258", "user-manager-257")
def test_the_option_python_version_is_for_every_program():
    """The predecessor's option, for a user's own server; the system service is not told by its clients."""
    default, other = two_pythons()
    version = version_of(other)
    conf = pathlib.Path(pwd.getpwnam("alice").pw_dir, ".config/mcp-exec/mcp-exec.conf")
    with packages() as index:
        tagged(index)
        sh(f"mkdir -p {conf.parent} && printf '[Packages]\\nIndexUrl=%s\\nExtraPythons=%s\\n' {index.url} {other} > {conf}", "alice")
        arguments = ["--no-bridge", "--uv-path", str(UV), "--python-version", minor_of(version)]
        try:
            with StdioClient("alice", arguments=arguments) as client:
                assert json.loads(output(client, LOOK, "mx-tagged")) == expected(other, True)
                for tool in "execute_python", "exec":
                    assert json.loads(run(client, LOOK, tool=tool)["stdout"]) == expected(other, False), tool
                text = text_of(client.call("check_environment", {}))
                assert text.startswith(f"Python version: {version} ({other})\n"), text
                requires = f"=={minor_of(version_of(default))}.*"
                assert "No interpreter fits" in refusal(client, script=block(requires, "mx-tagged"))
        finally:
            sh(f"rm -rf {conf.parent} ~/.local/state/mcp-exec", "alice")
