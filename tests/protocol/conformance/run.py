# SPDX-License-Identifier: MIT
"""The official conformance suite and real clients against one server; see README.md beside this file.

    run.py suite --build diagnostic|shipped    the scenarios of both revisions
    run.py clients                             two SDKs and the inspector, against the installed service

All that the server says passes witness.py: the verdicts messages.* say whether it fits the schemas of its revisions.
Verdicts go to a file, one JSON object a line. NODE_MODULES is where package-lock.json was installed."""

import argparse
import contextlib
import json
import os
import pathlib
import pwd
import re
import socket
import subprocess
import tempfile
import time

import witness

HERE = pathlib.Path(__file__).resolve().parent
MODULES = pathlib.Path(os.environ["NODE_MODULES"])
MCP_EXEC = os.environ.get("MCP_EXEC", "/usr/bin/mcp-exec")
REVISIONS = ("2025-11-25", "2026-07-28")
# What must pass with the diagnostic tools: no baseline may name them. A number: that many checks.
REQUIRED = {
    "2025-11-25": dict.fromkeys((
        "server-initialize", "ping", "tools-list", "tools-call-simple-text", "tools-call-image", "tools-call-audio",
        "tools-call-embedded-resource", "tools-call-mixed-content", "tools-call-error", "tools-call-with-progress",
        "server-sse-multiple-streams", "dns-rebinding-protection")),
    "2026-07-28": dict.fromkeys((
        "tools-list", "tools-call-simple-text", "tools-call-image", "tools-call-audio", "tools-call-embedded-resource",
        "tools-call-mixed-content", "tools-call-error", "tools-call-with-progress", "server-sse-multiple-streams",
        "dns-rebinding-protection", "sep-2164-resource-not-found", "input-required-result-missing-input-response",
        "input-required-result-unsupported-methods", "input-required-result-ignore-extra-params",
        "input-required-result-validate-input", "tasks-capability-negotiation", "tasks-wire-fields",
        "tasks-request-state-removal", "tasks-request-headers", "http-custom-header-server-validation"))
    | {"server-stateless": 28, "http-header-validation": 14},
}
NAMES_OF_DIAGNOSTICS = (b"test_simple_text", b"test_missing_capability", b"json_schema_2020_12_tool", b"slow_compute")
TOKEN = "a-token-for-these-clients-0123456789"


class Verdicts:
    def __init__(self, path):
        self.file = open(path, "w")

    def add(self, test, problems, seconds=0.0):
        """problems: text of what is wrong, empty when nothing is."""
        self.write({"test": test, "verdict": "fail" if problems else "pass", "seconds": round(seconds, 2),
                    "message": problems[:4000]})

    def write(self, entry):
        self.file.write(json.dumps(entry) + "\n")
        self.file.flush()

    def end(self):
        self.write({"end": True})


@contextlib.contextmanager
def witnessed(verdicts):
    """Findings, and a thread that makes them; at the end one verdict for each client of which there has to be some."""
    with tempfile.TemporaryDirectory(prefix="mcp-exec-") as folder:
        findings, work, clients = witness.Findings(folder), witness.Work(), []
        yield findings, work, clients
        work.end()
        findings.wait_for_others()
        total = 0
        for client in clients:
            n, wrong = findings.of(client)
            total += n
            verdicts.add(f"messages.{client}", wrong)
        print(f"{total} messages of the server were checked for {len(clients)} clients", flush=True)


def node():
    return str(next(MODULES.glob("node-linux-*/bin/node")))


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as s:
        return s.getsockname()[1]


@contextlib.contextmanager
def server(*arguments):
    """mcp-exec serve without a token, for the suite cannot send any; gives its address."""
    port = free_port()
    env = {"HOME": "/nonexistent", "PATH": "/usr/local/bin:/usr/bin:/bin"}
    process = subprocess.Popen([MCP_EXEC, "serve", "--listen", f"127.0.0.1:{port}", "--no-auth", *arguments], env=env)
    try:
        end = time.monotonic() + 20
        while True:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                break
            if time.monotonic() > end or process.poll() is not None:
                raise SystemExit("mcp-exec serve did not start")
            time.sleep(0.05)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(30)


@contextlib.contextmanager
def launcher():
    """Options for a server: the fake launcher of a build directory, or nothing for the service's own."""
    fake = os.environ.get("FAKE_LAUNCHER")
    if not fake:
        yield ()
        return
    with tempfile.TemporaryDirectory(prefix="mcp-exec-") as where:
        path = where + "/launcher.sock"
        process = subprocess.Popen([fake, path, "/usr/bin/python3"], stdout=subprocess.PIPE)
        try:
            assert process.stdout.readline() == b"ready\n"
            yield "--launcher-socket", path
        finally:
            process.kill()
            process.wait()


# ---- The official suite -----------------------------------------------------------------------------------

def read_baseline(path):
    """Names of scenarios (value None) or scenarios with the ids of their checks; each line must give a reason."""
    found = {}
    for line in path.read_text().splitlines():
        entry = re.fullmatch(r"  - ([a-z0-9-]+)(?::([a-z0-9-]+))?  # (.{5,})", line)
        if entry and entry[2]:
            found.setdefault(entry[1], set()).add(entry[2])
        elif entry:
            found[entry[1]] = None
        elif line.startswith("  -"):
            raise SystemExit(f"{path}: no reason in {line!r}")
    return found


def judge(checks, expected, is_expected, needed, is_required):
    """What is wrong with one scenario's checks. A required one may be excused for its warnings, no more."""
    bad = [c for c in checks if c["status"] in ("FAILURE", "WARNING")]
    if is_expected and expected is None:
        return "" if bad else "it passes: take it out of the baseline"
    listed = expected or set()
    wrong = [f"{c['id']}: {c.get('errorMessage')}" for c in bad
             if c["id"] not in listed or (is_required and c["status"] == "FAILURE")]
    wrong += [f"{name} passes: take it out of the baseline" for name in sorted(listed - {c["id"] for c in bad})]
    good = sum(c["status"] == "SUCCESS" for c in checks)
    if needed and good != needed:
        wrong.append(f"{good} checks passed, not {needed}")
    return "\n".join(wrong)


def run_suite(build, revision, url, verdicts, out):
    baseline_file = HERE / "baseline" / f"{build}-{revision}.yml"
    baseline = read_baseline(baseline_file)
    required = REQUIRED[revision] if build == "diagnostic" else {}
    begin = time.monotonic()
    done = subprocess.run(
        [node(), MODULES / "@modelcontextprotocol/conformance/dist/index.js", "server", "--url", url + "/mcp",
         "--requirements", revision, "--expected-failures", baseline_file, "-o", out],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", timeout=200)
    prefix = f"conformance.{build}.{revision}"
    verdicts.add(f"{prefix}.suite", done.stdout[-3000:] if done.returncode else "", time.monotonic() - begin)
    seen = set()
    for folder in sorted(out.iterdir()) if out.is_dir() else ():
        name = re.fullmatch(r"server-(.+)-\d{4}-\d\d-\d\dT.*", folder.name)[1]
        seen.add(name)
        checks = json.loads((folder / "checks.json").read_text())
        verdicts.add(f"{prefix}.{name}", judge(checks, baseline.get(name), name in baseline, required.get(name),
                                                 name in required))
    absent = sorted((set(required) | set(baseline)) - seen)
    verdicts.add(f"{prefix}.all_were_run", f"not run: {absent}" if absent else "")
    wrong = sorted(name for name in required if name in baseline and baseline[name] is None)
    verdicts.add(f"{prefix}.baseline", f"must pass, but excused: {wrong}" if wrong else "")


def suite(arguments, verdicts):
    content = pathlib.Path(MCP_EXEC).read_bytes()
    present = [name.decode() for name in NAMES_OF_DIAGNOSTICS if name in content]
    if arguments.build == "shipped":
        verdicts.add("conformance.shipped.has_no_diagnostic_tools", f"in it: {present}" if present else "")
    else:
        absent = len(present) < len(NAMES_OF_DIAGNOSTICS)
        verdicts.add("conformance.diagnostic.has_diagnostic_tools", f"only {present}" if absent else "")
    with witnessed(verdicts) as (findings, work, clients), launcher() as options, server(*options) as url, \
            tempfile.TemporaryDirectory() as out:
        for revision in REVISIONS:
            clients.append(f"conformance.{arguments.build}.{revision}")
            with witness.HttpProxy(findings, clients[-1], url, work) as passed:
                run_suite(arguments.build, revision, passed, verdicts, pathlib.Path(out) / revision)


# ---- Real clients -----------------------------------------------------------------------------------------

CONFIGURATION = """# Fifty calls at a time, beside one long call of each client.
[Server]
MaxConnectionsPerAddress=250
[Exec]
MaxParallel=24
QueueMax=200
QueueMaxPerUser=100
"""


def systemctl(*arguments):
    subprocess.run(["systemctl", *arguments], check=True)


def prepare_service():
    folder = pathlib.Path("/etc/mcp-exec/mcp-exec.conf.d")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "60-clients.conf").write_text(CONFIGURATION)
    subprocess.run(["mcp-exec", "token", "add", "--stdin", "clients"], check=True, input=TOKEN.encode(),
                   stdout=subprocess.DEVNULL)
    systemctl("stop", "mcp-exec.service")
    systemctl("start", "mcp-exec-http.socket", "mcp-exec.socket")


def inspector(name, arguments, check, verdicts):
    begin = time.monotonic()
    launcher_js = MODULES / "@modelcontextprotocol/inspector/clients/launcher/build/index.js"
    done = subprocess.run([node(), launcher_js, "--cli", *arguments, "--format", "json"], capture_output=True,
                          text=True, timeout=100, stdin=subprocess.DEVNULL, env=os.environ | {"HOME": "/root"})
    problem = ""
    try:
        assert done.returncode == 0, f"exit status {done.returncode}"
        check(json.loads(done.stdout)["result"])
    except (AssertionError, KeyError, ValueError) as error:
        problem = f"{error!r}\n{done.stdout[-1500:]}\n{done.stderr[-1500:]}"
    verdicts.add(f"inspector.{name}", problem, time.monotonic() - begin)


def check_list(result):
    names = [tool["name"] for tool in result["tools"]]
    assert names[:1] == ["exec"], names


def check_call(result):
    assert result["structuredContent"]["stdout"] == "42\n", result


def inspect(urls, over_pipes, verdicts):
    header = ("--header", f"Authorization: Bearer {TOKEN}")
    ways = {
        "stdio": ([*over_pipes("inspector.stdio"), MCP_EXEC, "stdio"], ()),
        "http.legacy": ([urls["inspector.http.legacy"] + "/mcp", "--transport", "http"], header),
        "http.modern": ([urls["inspector.http.modern"] + "/mcp", "--transport", "http", "--protocol-era", "modern"], header),
        "sse": ([urls["inspector.sse"] + "/sse", "--transport", "sse"], header),
    }
    for name, (target, more) in ways.items():
        inspector(f"{name}.list_strict", [*target, *more, "--method", "tools/list", "--strict"], check_list, verdicts)
        inspector(f"{name}.call", [*target, *more, "--method", "tools/call", "--tool-name", "exec", "--tool-arg",
                                   "code=print(6*7)"], check_call, verdicts)


def own_engine():
    """A user's own server on the user's own service manager, which must be systemd 257 or newer; else None."""
    with contextlib.suppress(KeyError):
        user = pwd.getpwnam("alice")
        if os.path.exists(f"/run/user/{user.pw_uid}/systemd/private"):
            return ["setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--init-groups", "env", "-i",
                    f"HOME={user.pw_dir}", "USER=alice", "LOGNAME=alice", "PATH=/usr/local/bin:/usr/bin:/bin",
                    MCP_EXEC, "stdio", "--no-bridge"]
    return None


# Sessions of clients.mjs over HTTP, and the inspector's: each has an address of its own.
OVER_HTTP = ("sdk1.http", "sdk1.sse", "client2.http.legacy", "client2.http.auto", "client2.http.pinned", "client2.sse.legacy",
             "inspector.http.legacy", "inspector.http.modern", "inspector.sse")
OVER_PIPES = ("sdk1.{}", "client2.{}.legacy", "client2.{}.auto", "client2.{}.pinned")


def clients(_, verdicts):
    prepare_service()
    with witnessed(verdicts) as (findings, work, heard), contextlib.ExitStack() as stack:
        def over_pipes(client):
            return ["python3", str(HERE / "witness.py"), "stdio", str(findings.folder), client]
        urls = {client: stack.enter_context(witness.HttpProxy(findings, client, "http://127.0.0.1:8080", work))
                for client in OVER_HTTP}
        own = own_engine()
        commands = {"bridge": [MCP_EXEC, "stdio"]} | ({"own": own} if own else {})
        settings = {"urls": urls, "token": TOKEN, "seconds": 90, "audited": True,
                    "stdio": [[name, *over_pipes("{client}"), *command] for name, command in commands.items()]}
        heard += [*OVER_HTTP, "inspector.stdio"]
        for name in commands:
            heard += [client.format(name) for client in OVER_PIPES]
        run_clients(settings, urls, over_pipes, verdicts)


def run_clients(settings, urls, over_pipes, verdicts):
    process = subprocess.Popen([node(), HERE / "clients.mjs", json.dumps(settings)], stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True)
    inspect(urls, over_pipes, verdicts)
    try:
        out, errors = process.communicate(timeout=270)
    except subprocess.TimeoutExpired:
        process.kill()
        out, errors = process.communicate()
    n = 0
    for line in out.splitlines():
        if line.startswith("{"):
            entry = json.loads(line)
            verdicts.write(entry | {"test": "clients." + entry["test"]})
            n += 1
    verdicts.add("clients.all_were_run", errors[-3000:] or "no end" if process.returncode != 0 or n < 10 else "")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=("suite", "clients"))
    parser.add_argument("--build", choices=("diagnostic", "shipped"), default="shipped")
    parser.add_argument("--results", required=True)
    arguments = parser.parse_args()
    verdicts = Verdicts(arguments.results)
    {"suite": suite, "clients": clients}[arguments.what](arguments, verdicts)
    verdicts.end()


if __name__ == "__main__":
    main()
