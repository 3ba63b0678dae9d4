# SPDX-License-Identifier: MIT
"""A server that can prepare packages, for protocol tests: the real parse.py and remove.py, a FETCH and an INSTALL that do
without index and uv (tests/fake/prepare), a fake launcher with a directory for sets.

The environment names PREPARE_DIRECTORY, where the build has left the programs."""

import contextlib
import os
import pathlib
import re

import harness

FAKES = pathlib.Path(__file__).resolve().parent.parent / "fake" / "prepare"
PROGRAMS = pathlib.Path(os.environ.get("PREPARE_DIRECTORY", "/usr/lib/mcp-exec/prepare"))

try:
    import packaging
    import jsonschema
except ImportError as missing:
    packaging = jsonschema = None
    MISSING = missing


class Machine:
    """where: a directory; sets: that of the sets; conf: what XDG_CONFIG_HOME is."""

    def __init__(self, where, launcher):
        self.where, self.sets, self.launcher = where, where / "sets", launcher
        self.arguments = ["--launcher-socket", launcher, "--prepare-directory", str(where / "prepare")]

    def environment(self, **more):
        return harness.environment(XDG_CONFIG_HOME=str(self.where / "conf"), **more)

    def server(self, *arguments, **more):
        return Server("stdio", *self.arguments, *arguments, env=self.environment(**more))

    def set_names(self):
        return sorted(p.name for p in self.sets.iterdir())

    def serve(self):
        """The same as a service on a Unix socket; gives its path."""
        return _service(self)


@contextlib.contextmanager
def _service(machine):
    path = str(machine.where / "service.sock")
    with harness.Server("serve", "--listen", "unix:" + path, *machine.arguments, env=machine.environment()) as s:
        harness.wait_until(lambda: os.path.exists(path))
        try:
            yield path
        finally:
            s.process.terminate()


@contextlib.contextmanager
def machine(*settings, has_sets=True):
    """settings: lines of [Packages], after one that begins with "[" lines of that section."""
    if not packaging:
        raise harness.Skip(str(MISSING))
    with harness.directory() as where:
        for name in ("sets", "prepare", "conf/mcp-exec"):
            (where / name).mkdir(parents=True)
        for name in ("parse.py", "remove.py", "versions.py"):
            (where / "prepare" / name).symlink_to(PROGRAMS / name)
        for name in ("fetch.py", "install.py"):
            (where / "prepare" / name).symlink_to(FAKES / name)
        (where / "conf/mcp-exec/mcp-exec.conf").write_text("\n".join(["[Packages]", *settings, ""]))
        say_version(where / "uv", "0.13.9")
        options = [f"sets={where / 'sets'}", f"uv={where / 'uv'}"] if has_sets else []
        with harness.fake_launcher(f"python={harness.PYTHON}", *options) as launcher:
            yield Machine(where, launcher)


def say_version(path, version):
    """A uv that only tells its version, and leaves a line beside itself each time."""
    path.write_text(f"#!/bin/sh\n[ \"$*\" = --version ] || exit 1\necho >>{path}-asked\necho 'uv {version} (some-machine)'\n")
    path.chmod(0o755)


class Server(harness.Server):
    def __enter__(self):
        self.handshake()
        self.tools = {tool["name"]: tool for tool in self.ask("tools/list", {}, "tools")["result"]["tools"]}
        self.number = 0
        return self

    def start(self, tool, arguments, **meta):
        self.number += 1
        ident = f"call-{self.number}"
        params = {"name": tool, "arguments": arguments}
        if meta:
            params["_meta"] = meta
        self.send("tools/call", params, ident)
        return ident

    def end(self, tool, ident):
        result = self.reply(ident, 60)["result"]
        if "structuredContent" in result:
            schema = self.tools[tool]["outputSchema"]
            jsonschema.Draft202012Validator.check_schema(schema)
            jsonschema.Draft202012Validator(schema).validate(result["structuredContent"])
            undeclared = set(result["structuredContent"]) - set(schema["properties"])
            assert not undeclared, undeclared
        return result

    def tool(self, tool, **arguments):
        return self.end(tool, self.start(tool, arguments))

    def text(self, tool, **arguments):
        """Of a call that is no error."""
        result = self.tool(tool, **arguments)
        assert not result.get("isError"), result
        return result["content"][0]["text"]

    def error(self, tool, **arguments):
        result = self.tool(tool, **arguments)
        assert result.get("isError") and "structuredContent" not in result, result
        return result["content"][0]["text"]

    def progress(self):
        return [m["params"]["message"] for m in self.messages if m.get("method") == "notifications/progress"]


def sections(text):
    """The predecessor's layout as a dictionary: "--- NAME ---" and what stands below it, "--- NAME: VALUE ---"."""
    found = {}
    for match in re.finditer(r"(?ms)^--- (\w+)(?:: (.*?))? ---$\n?(.*?)(?=^--- |\Z)", text):
        found[match[1]] = match[2] if match[2] is not None else match[3]
    return found
