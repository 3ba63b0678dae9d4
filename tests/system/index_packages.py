# SPDX-License-Identifier: MIT
"""Scripts with packages of the real index, prepared by a real uv. In a machine of its own with a network (tests/run index);
what does not need the index is in test_packages.py and below tests/protocol."""

import json
import pathlib
import re
import shutil
import time

from lib import (Client, StdioClient, failed_units, minimal_environment, needs, sh, start_sockets, stop_services, text_of,
                 timeout, wait_until)

UV = pathlib.Path("/usr/local/bin/uv")
CONF = pathlib.Path("/etc/mcp-exec/mcp-exec.conf.d/80-index.conf")
CA = pathlib.Path("/etc/mcp-exec/ca.pem")
OF_HOST = pathlib.Path("/mnt/host/index.conf")
SETS = pathlib.Path("/var/lib/mcp-exec/sets")
EXAMPLE = "/usr/share/mcp-exec/requirements-data-science.txt"
MINUTES = 10


def _settings(text=""):
    # What the host's own package client is told, and what a test wants; the last one of a setting counts.
    lines = ["[Packages]", f"CaBundle={CA}"] if CA.exists() else ["[Packages]"]
    lines += OF_HOST.read_text().splitlines()
    CONF.write_text("\n".join([*lines, text, "[Sandbox]", "MemoryMax=2G", "TmpfsSize=256M", ""]))
    stop_services()
    start_sockets()


def _set_up():
    """Once; every test runs in a process of its own."""
    if not UV.exists():
        shutil.copy("/mnt/host/uv", UV)
        UV.chmod(0o755)
        if pathlib.Path("/mnt/host/ca.pem").exists():
            shutil.copy("/mnt/host/ca.pem", CA)
            CA.chmod(0o644)
    _settings()


def _sets():
    return {p.name for p in SETS.iterdir() if re.fullmatch("[0-9a-f]{64}", p.name)}


def _start(client, tool, **arguments):
    # With progress, for a call without is answered before a slow preparation is over.
    return client.start(tool, arguments, meta={"progressToken": f"{time.monotonic_ns()}"})


def _call(client, tool, **arguments):
    """What is between this machine and the index is not ours, and may fail for a moment."""
    for _ in range(3):
        result = _start(client, tool, **arguments).result(MINUTES * 60)
        if not re.search("cannot be resolved|answered with status 5", text_of(result)):
            break
        time.sleep(5)
    return result


def _run(client, script, dependencies=(), **more):
    """What it printed, in a run that was fine."""
    result = _call(client, "execute_python", script=script, dependencies=list(dependencies), timeout_seconds=120, **more)
    told = result.get("structuredContent")
    assert told and told["status"] == "ok", result
    return told["stdout"]


def _refusal(client, *dependencies, script="1"):
    result = _call(client, "execute_python", script=script, dependencies=list(dependencies))
    assert result.get("isError") and "structuredContent" not in result, result
    return text_of(result)


SCIENCE = {
    "pandas_groups": (["pandas", "numpy"], """
import pandas as pd
df = pd.DataFrame({"team": list("aabbb"), "points": [3, 5, 2, 4, 6]})
print(df.groupby("team")["points"].agg(["mean", "max"]).to_dict())
print(df.merge(pd.DataFrame({"team": ["a", "b"], "city": ["X", "Y"]})).pivot_table("points", "city", aggfunc="sum")["points"].to_dict())
""", "{'mean': {'a': 4.0, 'b': 4.0}, 'max': {'a': 5, 'b': 6}}\n{'X': 8, 'Y': 12}\n"),
    "pandas_times": (["pandas", "numpy"], """
import io, pandas as pd, numpy as np
s = pd.Series(np.arange(48), pd.date_range("2026-01-01", periods=48, freq="h"))
print(s.resample("D").sum().tolist(), s.rolling(3).mean().iloc[-1])
s.to_frame("x").to_csv("times.csv")
print(pd.read_csv("times.csv", index_col=0, parse_dates=True)["x"].sum())
""", "[276, 852] 46.0\n1128\n"),
    "numpy": (["numpy"], """
import numpy as np
print(np.linalg.solve([[2, 1], [1, 3]], [3, 5]).round(6).tolist())
print(np.linalg.eigvalsh([[2.0, 0.0], [0.0, 3.0]]).tolist(), np.random.default_rng(1).normal(size=9).shape)
""", "[0.8, 1.4]\n[2.0, 3.0] (9,)\n"),
    "scipy_optimize": (["scipy", "numpy"], """
from scipy import integrate, optimize
print(round(optimize.brentq(lambda x: x * x - 2, 0, 2), 6))
print(optimize.minimize(lambda v: (v[0] - 1) ** 2 + (v[1] + 2) ** 2, [0, 0]).x.round(3).tolist())
print(round(integrate.quad(lambda x: x * x, 0, 3)[0], 6))
""", "1.414214\n[1.0, -2.0]\n9.0\n"),
    "scipy_statistics": (["scipy", "numpy"], """
import numpy as np
from scipy import sparse, stats
print(round(stats.norm.cdf(0), 3), stats.ttest_ind([1, 2, 3, 4], [11, 12, 13, 14]).pvalue < 0.001)
print(stats.linregress([0, 1, 2], [1, 3, 5]).slope, sparse.eye(3, format="csr").sum())
""", "0.5 True\n2.0 3.0\n"),
    "sklearn_clusters": (["scikit-learn"], """
from sklearn.datasets import make_blobs
from sklearn.cluster import KMeans
X, y = make_blobs(n_samples=90, centers=3, cluster_std=0.5, random_state=1)
print(sorted({int(c) for c in KMeans(3, n_init=3, random_state=1).fit_predict(X)}))
""", "[0, 1, 2]\n"),
    "sklearn_classes": (["scikit-learn"], """
from sklearn.datasets import load_iris
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score, train_test_split
X, y = load_iris(return_X_y=True)
a, b, c, d = train_test_split(X, y, random_state=0)
print(RandomForestClassifier(20, random_state=0, n_jobs=2).fit(a, c).score(b, d) > 0.9)
print(cross_val_score(LogisticRegression(max_iter=500), X, y, cv=3, n_jobs=2).mean() > 0.9)
""", "True\nTrue\n"),
    "sklearn_regression": (["scikit-learn"], """
import numpy as np
from sklearn.decomposition import PCA
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
X = np.arange(40.0).reshape(20, 2)
model = make_pipeline(StandardScaler(), PCA(1), LinearRegression()).fit(X, X.sum(axis=1))
print(round(model.score(X, X.sum(axis=1)), 6), round(float(model.predict([[2.0, 3.0]])[0]), 3))
""", "1.0 5.0\n"),
    # Each of the two works waits for the other, so that they are two processes, or nothing comes of it.
    "joblib": (["joblib"], """
import os, time
import joblib
def work(i):
    open(f"here-{i}", "w").close()
    while not os.path.exists(f"here-{1 - i}"):
        time.sleep(0.01)
    return os.getpid()
pids = joblib.Parallel(n_jobs=2)(joblib.delayed(work)(i) for i in range(2))
print(len({os.getpid(), *pids}))
""", "3\n"),
    "matplotlib": (["matplotlib", "numpy"], """
import io, numpy as np, matplotlib.pyplot as plt
figure, axes = plt.subplots(2, 2)
axes[0][0].plot(np.sin(np.arange(10))); axes[0][1].hist(np.arange(50)); axes[1][0].scatter([1, 2], [3, 4]); axes[1][1].bar("ab", [1, 2])
b = io.BytesIO(); plt.savefig(b, format="png")
print(b.getvalue()[:4] == b"\\x89PNG", b.tell() > 1000)
""", "True True\n"),
    "polars": (["polars"], """
import polars as pl
print(pl.DataFrame({"a": [1, 1, 2], "b": [3, 4, 5]}).lazy().group_by("a").agg(pl.col("b").sum()).sort("a").collect().rows())
""", "[(1, 7), (2, 5)]\n"),
    "sympy": (["sympy"], "import sympy; print(sympy.factor('x**2 - 1'))", "(x - 1)*(x + 1)\n"),
    "beautifulsoup4": (["beautifulsoup4"], "from bs4 import BeautifulSoup as B; print(B('<p>hi</p>', 'html.parser').p.text)",
                       "hi\n"),
    "pydantic": (["pydantic>=2"], "import pydantic; print(pydantic.TypeAdapter(list[int]).validate_python(['1']))", "[1]\n"),
}


def _science(name):
    _set_up()
    dependencies, script, expected = SCIENCE[name]
    with Client() as client:
        before = None
        for _ in range(2):
            told = _call(client, "execute_python", script=script, dependencies=dependencies, timeout_seconds=120)
            told = told.get("structuredContent", told)
            assert (told.get("stdout"), told.get("stderr"), told.get("status")) == (expected, "", "ok"), told
            assert before in (None, _sets())
            before = _sets()


@timeout(MINUTES * 60)
def test_pandas_groups():
    _science("pandas_groups")


@timeout(MINUTES * 60)
def test_pandas_times():
    _science("pandas_times")


@timeout(MINUTES * 60)
def test_numpy():
    _science("numpy")


@timeout(MINUTES * 60)
def test_scipy_optimize():
    _science("scipy_optimize")


@timeout(MINUTES * 60)
def test_scipy_statistics():
    _science("scipy_statistics")


@timeout(MINUTES * 60)
def test_scikit_learn_clusters():
    _science("sklearn_clusters")


@timeout(MINUTES * 60)
def test_scikit_learn_classes():
    _science("sklearn_classes")


@timeout(MINUTES * 60)
def test_scikit_learn_regression():
    _science("sklearn_regression")


@timeout(MINUTES * 60)
def test_joblib_has_two_processes():
    _science("joblib")


@timeout(MINUTES * 60)
def test_matplotlib():
    _science("matplotlib")


@timeout(MINUTES * 60)
def test_polars():
    _science("polars")


@timeout(MINUTES * 60)
def test_sympy():
    _science("sympy")


@timeout(MINUTES * 60)
def test_beautifulsoup():
    _science("beautifulsoup4")


@timeout(MINUTES * 60)
def test_pydantic():
    _science("pydantic")


@timeout(MINUTES * 60)
def test_a_block_and_the_network_that_is_not_there():
    _set_up()
    script = ('# /// script\n# dependencies = ["httpx==0.28.1"]\n# ///\nimport httpx\n'
              "try:\n    httpx.get('http://example.com')\nexcept httpx.ConnectError:\n    print(httpx.__version__, 'no network')\n")
    with Client() as client:
        result = _call(client, "exec", code=script)["structuredContent"]
        assert (result["status"], result["stdout"]) == ("ok", "0.28.1 no network\n"), result


@timeout(MINUTES * 60)
def test_console_scripts_subprocesses_and_multiprocessing():
    _set_up()
    script = """
import multiprocessing, subprocess, sys
def said(*command):
    return subprocess.run(command, input="a b\\n", capture_output=True, text=True).stdout.split()
if __name__ == "__main__":
    print(said(sys.executable, "-c", "import tabulate; print(tabulate.tabulate([[1]]) != '')"))
    print(said("tabulate"))
    for method in ("fork", "spawn"):
        with multiprocessing.get_context(method).Pool(2) as pool:
            print(pool.map(abs, [-1, 2]))
    print(sys.prefix)
"""
    with Client() as client:
        out = _run(client, script, ["tabulate"]).splitlines()
        assert out == ["['True']", "['-', '-', 'a', 'b', '-', '-']", "[1, 2]", "[1, 2]", "/env"], out


@timeout(MINUTES * 60)
def test_refusals_say_what_to_do():
    _set_up()
    with Client() as client:
        before = _sets()
        text = _refusal(client, "mcp-exec-there-is-no-such-package")
        assert "knows no such package" in text and "Check the spelling" in text, text
        text = _refusal(client, "numpy>=9999")
        assert "No version fits" in text, text
        text = _refusal(client, "numpy==2.2.0", "pandas<1")
        assert len(text) < 1200, text
        for junk in ("junk!!", "-r /etc/passwd", "--index-url https://x.example", "${HOME}", "./here", "a\nb"):
            _refusal(client, junk)
        assert "URL" in _refusal(client, "demo @ https://x.example/demo-1.0-py3-none-any.whl")
        assert "git" in _refusal(client, "demo @ git+https://x.example/demo")
        # Only a source distribution: a build would run a stranger's code.
        text = _refusal(client, "docopt==0.6.2")
        assert "wheel" in text, text
        assert _sets() == before
    assert failed_units() == []


@timeout(MINUTES * 60)
def test_a_yanked_version_is_a_warning():
    _set_up()
    with Client() as client:
        result = _call(client, "execute_python", script="print(1)", dependencies=["attrs==21.1.0"])["structuredContent"]
        assert result["stdout"] == "1\n" and any("yanked" in hint or "withdrawn" in hint for hint in result["hints"]), result


@timeout(MINUTES * 60)
def test_an_index_that_is_not_there_fails_soon():
    _set_up()
    _settings("IndexUrl=http://127.0.0.1:9/simple\nPrepareTimeoutSec=60s")
    with Client() as client:
        began = time.monotonic()
        text = _refusal(client, "colorama")
        assert time.monotonic() - began < 60, text
        assert "index" in text, text
    _settings()


@timeout(MINUTES * 60)
def test_ten_calls_for_one_set_prepare_once():
    _set_up()
    with Client() as client:
        before = _sets()
        replies = [_start(client, "execute_python", script="import packaging; print(packaging.__version__)",
                          dependencies=["packaging==24.1"]) for _ in range(10)]
        for reply in replies:
            assert reply.result(MINUTES * 60)["structuredContent"]["stdout"] == "24.1\n"
        assert len(_sets() - before) == 1


@timeout(MINUTES * 60)
def test_the_shipped_example_is_the_default_environment_and_each_package_works():
    _set_up()
    sh(["mcp-exec", "env", "prepare", EXAMPLE], timeout=MINUTES * 60)
    _settings(f"DefaultRequirements={EXAMPLE}")
    script = """
import io, sys
import jinja2, matplotlib.pyplot as plt, numpy, pandas, yaml
from PIL import Image
from grep_ast import TreeContext
from tree_sitter_language_pack import get_parser
plt.plot([1, 2]); b = io.BytesIO(); plt.savefig(b)
print(sys.prefix, Image.open(io.BytesIO(b.getvalue())).format, jinja2.Template("{{ 6 * 7 }}").render(), yaml.safe_load("[1]"))
print(pandas.Series(numpy.arange(3)).sum(), get_parser("python").parse(b"x = 1").root_node.type)
context = TreeContext("a.py", "def f():\\n    return 42\\n", color=False)
context.add_lines_of_interest(context.grep("42", False)); context.add_context()
print("return 42" in context.format())
"""
    with Client() as client:
        result = _call(client, "exec", code=script, timeout_s=120)["structuredContent"]
        assert result["stdout"] == "/env PNG 42 [1]\n3 module\nTrue\n", result
        told = _call(client, "check_environment")
        assert "grep-ast 0.9.0" in text_of(told), told
    _settings()


@timeout(MINUTES * 60)
def test_env_lists_and_removes():
    _set_up()
    sh("printf 'six==1.16.0  # small\\n' > /tmp/list.txt; mcp-exec env prepare /tmp/list.txt", timeout=MINUTES * 60)
    sets = json.loads(sh(["mcp-exec", "env", "list", "--json"]).stdout)
    found = [s for s in sets if s["requirements"] == ["six==1.16.0"]]
    assert len(found) == 1 and found[0]["packages"] == ["six 1.16.0"], sets
    sh(["mcp-exec", "env", "remove", found[0]["name"][:12]])
    wait_until(lambda: not (SETS / found[0]["name"]).exists() and not (SETS / (found[0]["name"] + ".tmp")).exists())
    refused = sh(["mcp-exec", "env", "--no-bridge", "--socket", "/nonexistent", "remove", "zz"], check=False)
    assert refused.returncode == 2, refused


@timeout(MINUTES * 60)
@needs("user-manager-257")
def test_a_users_own_manager():
    _set_up()
    env = minimal_environment("alice") | {"MCP_EXEC_DEFAULT_TIMEOUT_S": "60"}
    sh("mkdir -p ~/.config/mcp-exec && cat > ~/.config/mcp-exec/mcp-exec.conf", user="alice", env=env,
       input="\n".join(["[Packages]", f"CaBundle={CA if CA.exists() else ''}", OF_HOST.read_text()]))
    with StdioClient("alice", env=env, arguments=["--no-bridge", "--uv-path", str(UV)]) as client:
        script = "import six, sys; print(six.__version__, sys.prefix); open(six.__file__, 'a')"
        result = _call(client, "execute_python", script=script, dependencies=["six==1.17.0"])["structuredContent"]
        assert result["stdout"] == "1.17.0 /env\n" and "Read-only file system" in result["stderr"], result
