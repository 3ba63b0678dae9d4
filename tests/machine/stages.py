# SPDX-License-Identifier: MIT
"""The stages of a test run. Each returns a list of results and never raises for a test that fails."""

import concurrent.futures
import os
import shlex
import shutil
import subprocess
import time
import traceback
import xml.etree.ElementTree

import conformance
import container
import host
import images
import index
import overlay
import package
import results
import uv
import vm

MACHINE_SECONDS = 45 * 60       # one machine with all of its tests; each test has its own deadline
COMPILER_OPTIONS = {
    "gcc": [],
    # The second compiler looks for other faults: memory errors and undefined behaviour.
    "clang": ["-Db_sanitize=address,undefined", "-Db_lundef=false"],
}
# The daemon lets only root use its socket unless configured, and its configuration is in /etc.
SUITE_USERS = {"protocol": "root"}


# ---- host tiers -------------------------------------------------------------------------------------------

def _options(compiler):
    # As a package is built, for only then is the configuration looked for in /etc.
    return ["--werror", "--prefix=/usr", *COMPILER_OPTIONS[compiler]]


def _build_folder(compiler):
    key = host.digest(host.TREE, images.recipe_key("build", "bookworm"), _options(compiler))
    path = host.CACHE / "meson" / f"{compiler}-{key}"
    path.mkdir(parents=True, exist_ok=True)
    os.chown(path, 1000, 1000)
    return path


def compiled(compiler, suites, where, names=()):
    """Builds with warnings as errors and runs the meson tests of the suites, in the oldest release's build
    image."""
    log = where / f"meson-{compiler}.log"
    root = images.image("build", "bookworm")
    build = _build_folder(compiler)
    started = time.monotonic()
    # Without it the tests of what uv says and does would skip.
    shown = uv.shared()
    with host.Lock(f"meson-{build.name}"), overlay.Overlay(root) as tree:
        source = tree.root / "src" / "mcp-exec"
        package.copy_sources(source)
        host.run("chroot", tree.root, "chown", "-R", "builder:", "/src")

        def inside(*argv, **kwargs):
            return package.inside(tree, argv, log, folder="/src/mcp-exec",
                                  binds=[(build, "/build"), *((folder, target) for folder, target, _ in shown)],
                                  setenv=(f"CC={compiler}", *(f"MCP_EXEC_UV={target}/uv" for _, target, _ in shown)),
                                  **kwargs)
        name = f"build.{compiler}"
        try:
            if not (build / "build.ninja").exists():
                inside("meson", "setup", *_options(compiler), "/build", "/src/mcp-exec")
            inside("ninja", "-C", "/build", "-j2")
        except host.Failed as error:
            return [results.Result(compiler, name, "fail", time.monotonic() - started, str(error))]
        found = [results.Result(compiler, name, "pass", time.monotonic() - started)]
        for suite in suites:
            found += _meson_test(compiler, suite, build, inside, names)
    return found


def _meson_test(compiler, suite, build, inside, names):
    """One suite of the tests of a build directory."""
    user = SUITE_USERS.get(suite, "builder")
    base = f"testlog-{suite}"
    report = build / "meson-logs" / f"{base}.junit.xml"
    report.unlink(missing_ok=True)
    done = inside("meson", "test", "-C", "/build", "--no-rebuild", "--print-errorlogs", "--logbase", base,
                  "--suite", suite, *names, check=False, user=user)
    cases = _junit(report, compiler) if report.exists() else []
    if done.returncode != 0 and not any(c.verdict == "fail" for c in cases):
        cases.append(results.Result(compiler, f"meson-test.{suite}", "fail", 0,
                                    f"exit status {done.returncode} and no case that failed"))
    return cases


def _case_message(case, suite):
    """What a test case or, failing that, its whole test printed."""
    texts = [case.findtext("system-out"), case.findtext("system-err")]
    if not any(texts):
        texts = [suite.findtext("system-out"), suite.findtext("system-err")]
    return "".join(text or "" for text in texts)


def _junit(path, place):
    found = []
    for suite in xml.etree.ElementTree.parse(path).getroot().iter("testsuite"):
        for case in suite.iter("testcase"):
            verdict, message = "pass", ""
            for tag, meaning in (("failure", "fail"), ("error", "fail"), ("skipped", "skip")):
                found_tag = case.find(tag)
                if found_tag is not None:
                    verdict = meaning
                    own = (found_tag.get("message") or "") + (found_tag.text or "")
                    message = own + _case_message(case, suite)[-4000:]
            # "project:suite / test" and the case; a test without cases of its own is its only case.
            test, own = suite.get("name").split(" / ")[-1], case.get("name").split(" / ")[-1]
            name = own if " / " in case.get("name") else f"{test}.{own}"
            found.append(results.Result(place, name, verdict, float(case.get("time") or 0), message))
    return found


# ---- packages ---------------------------------------------------------------------------------------------

def packaged(suite, checked=True):
    """Builds the package and runs lintian."""
    found = []
    started = time.monotonic()
    for name, step in (("package.build", lambda: package.build(suite, checked)),
                       ("package.lintian", lambda: package.lint(suite))):
        try:
            step()
            found.append(results.Result(suite, name, "pass", time.monotonic() - started))
        except host.Failed as error:
            found.append(results.Result(suite, name, "fail", time.monotonic() - started, str(error)))
            break
    return found


# ---- machines ---------------------------------------------------------------------------------------------

def exchange(suite, machine, where):
    """The directory a machine shares with the host: tests and package in it, verdicts come back in
    results/."""
    path = where / f"{machine}-{suite}"
    path.mkdir(parents=True)
    path.chmod(0o755)
    shutil.copytree(host.TREE / "tests" / "system", path / "tests",
                    ignore=shutil.ignore_patterns("__pycache__"))
    add_schemas(path / "tests")
    deb = package.deb(suite)
    shutil.copy(deb, path / "mcp-exec.deb")
    (path / "results").mkdir()
    return path


def add_schemas(folder):
    """What holds messages against the published schemas, beside the tests that hear them."""
    protocol = host.TREE / "tests" / "protocol"
    shutil.copy(protocol / "schemas.py", folder)
    shutil.copytree(protocol / "schemas", folder / "schemas")


def _verdicts(suite, machine, where, error=None):
    """What a machine has told, also of one that failed in the end."""
    found = results.read(suite, machine, where / f"{machine}-{suite}" / "results" / "results.jsonl")
    if error is None:
        return found
    name = f"{machine}.machine"
    return [r for r in found if r.test != name] + [results.Result(suite, name, "fail", 0, str(error))]


def in_container(suite, where, names=(), quick=False, scripts="test_*.py"):
    """Runs the system tests in a container of a release."""
    machine = "container" if scripts == "test_*.py" else "package"
    try:
        shared = exchange(suite, machine, where)
        machine_log, log = shared / "boot.log", shared / "console.log"
        with container.Container(suite, [(shared, "/mnt/host", True), *uv.shared()], machine_log) as guest, \
                open(log, "wb") as out:
            def inside(*argv, **kwargs):
                return guest.run(*argv, check=False, stdout=out, stderr=out, **kwargs).returncode
            if scripts == "test_*.py":
                if inside("sh", "/mnt/host/tests/prepare.sh", "/mnt/host/mcp-exec.deb") != 0:
                    raise host.Failed(f"the package did not install and start:\n{log.read_text()[-4000:]}")
            if not guest.run_detached(
                    "python3", "/mnt/host/tests/run.py", "--results", "/mnt/host/results", "--where", "container",
                    "--scripts", scripts, *(["--quick"] if quick else []), *names,
                    output="/mnt/host/console.log", seconds=MACHINE_SECONDS):
                raise host.Failed(f"the tests took more than {MACHINE_SECONDS} s")
    except (host.Failed, OSError, subprocess.SubprocessError) as error:
        return _verdicts(suite, machine, where, error)
    return _verdicts(suite, machine, where)


def in_vm(suite, where, names=None, exact=None, quick=False):
    """Runs system tests in the vm: those matching names, or exactly the ones listed and all marked
    also_vm."""
    try:
        shared = exchange(suite, "vm", where)
        for folder, _, _ in uv.shared():
            shutil.copytree(folder, shared / "uv")
        argv = ["python3", "/mnt/host/tests/run.py", "--results", "/mnt/host/results", "--where", "vm",
                "--factor", str(vm.SLOWNESS), *(["--quick"] if quick else [])]
        if exact is not None:
            (shared / "names").write_text("\n".join(exact) + "\n")
            argv += ["--names", "/mnt/host/names", "--also-vm"]
        script = ("exec >/mnt/host/console.log 2>&1\n"
                  "sh /mnt/host/tests/prepare.sh /mnt/host/mcp-exec.deb && "
                  + shlex.join(argv + list(names or ())) + "\nsync\n")
        vm.run_boot_script(suite, script, shared, MACHINE_SECONDS, shared / "boot.log")
    except (host.Failed, OSError, subprocess.SubprocessError) as error:
        return _verdicts(suite, "vm", where, error)
    return _verdicts(suite, "vm", where)


def release(suite, where, checked=True, with_vm=True):
    """Everything for one release: package, lintian, its life cycle, system tests in container and vm."""
    found = packaged(suite, checked)
    if found[0].verdict == "fail":
        # A unit test that fails in the build is a failure, and no reason not to try the rest.
        unchecked = packaged(suite, False) if checked else []
        if not unchecked or unchecked[0].verdict == "fail":
            return found
        found += unchecked[1:]
    found += in_container(suite, where, scripts="package_*.py")
    system = in_container(suite, where)
    if with_vm:
        system += in_vm(suite, where, exact=results.unmet(system))
    return found + system


def everything(where):
    """All stages, two at a time."""
    def watched(name, function, *arguments):
        started = time.monotonic()
        found = function(*arguments)
        failed = sum(r.verdict == "fail" for r in found)
        host.say(f"{name}: {len(found)} results, {failed} failed, {time.monotonic() - started:.0f} s")
        return found

    jobs = [("gcc: build and tests", compiled, "gcc", ("unit", "protocol", "lint"), where),
            ("trixie", release, "trixie", where),
            ("bookworm", release, "bookworm", where),
            ("sid", release, "sid", where),
            ("conformance suite and real clients", conformance.everything, where),
            ("scripts with real packages", index.everything, where),
            ("clang with sanitizers: build and unit tests", compiled, "clang", ("unit",), where)]
    found = []
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        for future in [pool.submit(watched, *job) for job in jobs]:
            try:
                found += future.result()
            except Exception as error:  # the verdicts of the other stages are told all the same
                traceback.print_exception(error)
                found.append(results.Result("host", "stage", "fail", 0, f"{type(error).__name__}: {error}"))
    return results.united(found)
