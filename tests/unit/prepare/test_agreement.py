#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""parse against the two references, packaging and uv: thousands of requirements and blocks, made up and real.

Where we differ there must be a reason in one of the tables below, or the test fails. The generators' seeds are fixed; the
numbers of each difference are printed. What is real is REAL and what the interpreter's own packages depend on."""

import concurrent.futures
import importlib.metadata
import os
import pathlib
import random
import re
import subprocess
import tempfile

import rig

N_PACKAGING = 6000
N_UV = 3000
N_BLOCKS = 1000
POLICY = {"allow": [], "deny": [], "direct_urls": True, "vcs": True, "tool_uv": False}

# Why we refuse what packaging takes: (name, what our reason says). Both are readers of PEP 508; our answer goes to a third.
STRICTER = {
    "a marker's value with characters that mean something to readers of requirements files": "a marker with characters",
    "an option, as readers of requirements files see it, inside a marker's value": "option behind",
    "a variable, as they see it": "a variable",
    "a comment, as they see it": "a comment",
    "a backslash, or a slash where a name should be": "is a path",
    "a URL of a kind that is never fetched": "URL of a kind",
    "a URL with characters that mean something to those readers": "URL with characters",
    "a URL with credentials": "user name or a password",
    "a version in the place of a URL": "not 'name@1.2'",
    "a newline or a control character, which packaging takes for a blank": "control character",
    "an arbitrary version (===) with characters outside of its grammar": "characters that are not taken",
    "too long": "is longer than",
}

REAL = """
numpy|pandas>=2.2|requests[socks]>=2.31,<3|scikit-learn==1.5.*|torch==2.4.1+cpu|pydantic>=2,!=2.1.0|black[jupyter]~=24.4
importlib-metadata>=4.6; python_version<"3.10"|tomli>=1.1.0; python_version < '3.11'|typing_extensions>=4.0.0
colorama>=0.4.4; sys_platform == "win32"|pywin32>=300 ; platform_system=="Windows"|zope.interface|Flask (>=2.0,<4)
cryptography!=40.0.0,!=40.0.1,<46,>=38.0.0|urllib3>=1.21.1,<3|charset_normalizer>=2,<4|idna>=2.5,<4|certifi>=2017.4.17
PySocks>=1.5.6,!=1.5.7 ; extra == 'socks'|uvicorn[standard]|psycopg[binary,pool]>=3.1|setuptools-scm[toml]>=6.2
greenlet!=0.4.17 ; (platform_machine=='aarch64' or (platform_machine=='x86_64' or platform_machine=='AMD64'))
pytest-asyncio==0.21.0|Pillow>=9|ruamel.yaml<0.19,>=0.17|backports.zoneinfo; python_version<'3.9'|jaraco.functools
tzdata; sys_platform in "win32 emscripten"|pyobjc-core; platform_release >= '20.0'|attrs==21.1.0|six===1.16.0|pytz>dev
grep-ast==0.9.0|tree-sitter-language-pack==0.13.0|beautifulsoup4>4.9|matplotlib~=3.8.0|sympy|polars[numpy,pandas]>=1
ipython (<=9.0) ; python_full_version>='3.11.0rc1'|dask [array] (>=2024.1)|a-b_c.d|python-dateutil>=2.8.2|legacy==2004d
numpy>=1.23.2; python_version == "3.11"|numpy>=1.26.0; python_version >= "3.12"|tzdata>=2022.7|pytest>=7.3.2; extra == "test"
pytest-xdist>=2.2.0; extra == "test"|fastparquet>=2022.12.0; extra == "parquet"|odfpy>=1.4.1; extra == "excel"
lxml>=4.9.2; extra == "xml"|s3fs>=2022.11.0; extra == 'all'|PyQt5>=5.15.9; extra == "all"|qtpy>=2.3.0; extra == "clipboard"
contourpy>=1.0.1|cycler>=0.10|fonttools>=4.22.0|kiwisolver>=1.3.1|packaging>=20.0|pyparsing>=2.3.1,<4|meson-python<0.17.0,>=0.13.1
pybind11!=2.13.3,>=2.13.2; extra == "dev"|setuptools_scm>=7; extra == "dev"|joblib>=1.2.0|threadpoolctl>=3.1.0
asv; extra == "benchmark"|ruff>=0.0.292; extra == "dev"|mypy==1.10.0; extra == "dev"|types-psutil; extra == "dev"
jupyterlite-sphinx>=0.19.1; extra == "doc"|myst-nb>=1.2.0; extra == "doc"|sphinx!=8.2.0,<9.0,>=5.0.0; extra == "doc"
pydantic-core==2.33.2|annotated-types>=0.6.0|typing-inspection>=0.4.0|email-validator>=2.0.0; extra == 'email'
tzdata; (python_version >= '3.9' and platform_system == 'Windows') and extra == 'timezone'|anyio|httpcore==1.*|sniffio>=1.1
h2<5,>=3; extra == 'http2'|brotli; (platform_python_implementation == 'CPython') and extra == 'brotli'
brotlicffi; (platform_python_implementation != "CPython") and extra == "brotli"|click==8.*; extra == 'cli'|socksio==1.*; extra=='socks'
importlib-resources>=3.2.0; python_version < "3.10"|exceptiongroup>=1.0.2; python_version < '3.11'|trio>=0.26.1; extra == 'trio'
uvloop!=0.15.0,!=0.15.1,>=0.14.0; (sys_platform != "win32" and (sys_platform != "cygwin" and platform_python_implementation != "PyPy")) and extra == "standard"
watchfiles>=0.13; extra == 'standard'|colorama>=0.4; (sys_platform == 'win32') and extra == 'standard'|starlette<0.42.0,>=0.40.0
fastapi-cli[standard]>=0.0.5; extra == "standard"|itsdangerous>=1.1.0; extra == "all"|orjson>=3.2.1; extra == "all"
greenlet!=0.4.17; python_version < "3.14" and (platform_machine == "aarch64" or platform_machine == "ppc64le" or platform_machine == "x86_64")
importlib-metadata; python_version < "3.8"|mysql-connector-python; extra == "mysql-connector"|psycopg2>=2.7; extra == "postgresql"
cx_oracle>=8; extra == "oracle"|sqlalchemy[asyncio]>=2.0.0b2|alembic[tz]|MarkupSafe>=2.0|Babel>=2.7; extra == 'i18n'
soupsieve>1.2|html5lib; extra == 'html5lib'|cchardet; extra == 'cchardet'|mpmath<1.4,>=1.1.0|gmpy2>=2.1.0a4; python_version<'3.13'
nvidia-cublas-cu12==12.6.4.1; platform_system == "Linux" and platform_machine == "x86_64"|triton==3.2.0; platform_system == "Linux"
torch>=2.0,!=2.0.1|jaxlib<=0.5.0,>=0.4.30|ml_dtypes>=0.5.0; python_version >= "3.13"|opt_einsum|tensorflow-io-gcs-filesystem<0.32,>=0.23.1; python_version<"3.12"
protobuf!=4.21.0,!=4.21.1,!=4.21.2,!=4.21.3,!=4.21.4,!=4.21.5,<6.0.0dev,>=3.20.3|grpcio<2.0,>=1.24.3|keras>=3.5.0|absl-py>=1.0.0
backports-datetime-fromisoformat; python_version < '3.11'|pywin32-ctypes!=0.1.0,!=0.1.1 ; sys_platform == "win32"|SecretStorage>=3.2; sys_platform=="linux"
jeepney>=0.4.2;sys_platform=="linux"|pexpect>4.3; sys_platform != 'win32' and sys_platform != "emscripten"|appnope; platform_system == "Darwin"
jedi>=0.16|prompt_toolkit<3.1.0,>=3.0.41|stack_data|traitlets>=5.13.0|ipykernel!=6.30.0|jupyter-client>=8.0.0|nbformat>=5.7,<6
cffi>=1.12 ; platform_python_implementation != 'PyPy'|bcrypt>=3.1.5 ; extra == 'ssh'|docutils<0.22,>=0.20|zipp>=3.20|zstandard>=0.18.0
"""

NAMES = ["a", "numpy", "Foo_Bar", "zope.interface", "x--y", "A1", "0", "a.", "-a", "_a", "a b", "ä", "", "a!", "a" * 70]
EXTRAS = ["", "", "", "[]", "[x]", "[x,y]", "[ x , Y_z ]", "[x,]", "[,]", "[x", "[-]", "[ä]"]
OPERATORS = ["==", ">=", "<=", "!=", "~=", "<", ">", "===", "=", "=>", "", "^", "=<", "!"]
VERSIONS = ["1", "1.0", "1.2.3", "1.*", "1.0.*", "2024.1rc1", "1!2.0", "1.0+local.5", "1.0.post1", "1.0.dev0", "v1", "1.0a", "1-1",
            "1.0-odd", "*", "", "x", "1..2", "1.0+", "1_0", "01.002", "1.0alpha2.post3.dev4"]
MARKERS = ["", "", "", "; python_version<'3.12'", ";python_version >= \"3.8\" and os_name == 'posix'", "; extra=='x'",
           "; (os_name == 'a' or os_name == 'b')", " ; sys_platform in 'linux darwin'", "; '3.8' < python_version", ";", "; x",
           "; os_name", "; os_name == posix", "; os_name == 'a\" b'", "; os_name == 'a -b'", "; os_name == '#'", "; os_name=='$HOME'",
           "; platform_version == '#1 SMP'", "; os_name not in 'x'", "; os_name === 'x'", "; python_version ~= '3.8'",
           "; os_name == ''", "; os.name == 'posix'", "; python_implementation == 'CPython'", "; (os_name == 'a'"]
TAILS = ["", "", "", "", "", "", " ", "\t", "\n", " # comment", " --hash=sha256:0", "\\", "\0", " \u00a0"]
URLS = [" @ https://h/x-1.whl", "@https://h/x.whl#sha256=00", " @ git+https://h/x@v1", " @ file:///x", " @ ./x", " @ http://h/x",
        " @ https://u:p@h/x", " @ https://h/$X", " @ https://h/x y", " @ ", "@1.0", " @ https://h/'x'"]
LETTERS = "ab1.-_[]()<>=!~,;@ '\"#$\\/{}\t\n\u00e9"


def made_up(n):
    """The same n requirements each time: combinations, and some with a letter changed, lost or added."""
    dice = random.Random(723)
    for _ in range(n):
        text = dice.choice(NAMES[:7] if dice.random() < 0.8 else NAMES) + dice.choice(EXTRAS)
        if dice.random() < 0.1:
            text += dice.choice(URLS)
        else:
            specifiers = [dice.choice(["", " "]) + dice.choice(OPERATORS[:8] if dice.random() < 0.9 else OPERATORS) +
                          dice.choice(["", " "]) + dice.choice(VERSIONS[:11] if dice.random() < 0.9 else VERSIONS)
                          for _ in range(dice.choice([0, 0, 1, 1, 1, 2, 3]))]
            specifiers = dice.choice([",", ",", ", ", " "]).join(specifiers)
            text += f" ({specifiers})" if dice.random() < 0.1 else specifiers
        text += dice.choice(MARKERS) + dice.choice(TAILS)
        if dice.random() < 0.15 and text:
            at = dice.randrange(len(text))
            text = text[:at] + dice.choice([dice.choice(LETTERS), ""]) + text[at + dice.choice([0, 1]):]
        yield text


def real():
    yield from (entry for line in REAL.strip().splitlines() for entry in line.split("|"))
    for distribution in importlib.metadata.distributions():
        yield from distribution.requires or ()


def ours(parse, text):
    """(what we write, None) or (None, why we refuse)."""
    try:
        return parse.read_requirement(text, POLICY), None
    except parse.Refused as e:
        return None, str(e)


def same(parse, text, written):
    one, other = parse.Requirement(text), parse.Requirement(written)
    return (parse.canonical(one.name) == parse.canonical(other.name) and one.specifier == other.specifier and
            str(one.marker) == str(other.marker) and (one.url or None) == (other.url or None) and
            {parse.canonical(e) for e in one.extras} == {parse.canonical(e) for e in other.extras})


def test_requirements_against_packaging():
    parse = rig.load("parse")
    seen, n_both, n_neither = {}, 0, 0
    for text in [*made_up(N_PACKAGING), *real()]:
        written, reason = ours(parse, text)
        try:
            parse.Requirement(text)
            theirs = True
        except (ValueError, SyntaxError):
            # InvalidRequirement; from old releases also InvalidSpecifier, and what strings of markers are evaluated to.
            theirs = False
        if written is not None:
            if not theirs or not same(parse, text, written) or parse.LINE.fullmatch(written) is None:
                raise AssertionError(f"{text!r} became {written!r}")
            n_both += 1
        elif theirs:
            name = next((name for name, part in STRICTER.items() if part in reason), None)
            if name is None:
                raise AssertionError(f"packaging takes {text!r}, we do not and say {reason!r}")
            seen[name] = seen.get(name, 0) + 1
        else:
            n_neither += 1
    print(f"# {n_both} taken by both, {n_neither} by neither")
    for name, n in seen.items():
        print(f"# {n} refused by us only: {name}")
    if n_both < 600 or n_neither < 1000:
        raise AssertionError("the generator makes too little of one kind")


# --- uv ----------------------------------------------------------------------------------------------------------------

def uv_takes(uv, directory, number, script):
    """Whether uv reads the script's block: "yes", "no", or "none" where it sees no block."""
    path = f"{directory}/{number}.py"
    pathlib.Path(path).write_bytes(script.encode())
    done = subprocess.run([uv, "pip", "compile", "--offline", "--no-index", "--no-config", "--no-build", "--quiet", "--no-sources",
                           "--no-python-downloads", "--python", rig.PYTHON, path], stdin=subprocess.DEVNULL,
                          capture_output=True, env={"PATH": "/nonexistent", "HOME": directory, "NO_COLOR": "1",
                                                    "UV_CACHE_DIR": directory + "/cache"})
    text = done.stderr.decode(errors="replace")
    if done.returncode == 0 or "No solution found" in text or re.search(
            r"Network connectivity is disabled|Failed to (download|resolve|read|fetch|parse)|Distribution not found|"
            r"Git operation|URL dependency|Direct URL|Unsupported scheme|different|unsatisfiable", text) and \
            "TOML parse error" not in text:
        return "yes"
    return "none" if "does not contain inline script metadata" in text else "no"


def block_of(requirement):
    quoted = requirement.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t").replace("\0", "\\u0000")
    return f'# /// script\n# dependencies = ["{quoted}"]\n# ///\n'


# For each way in which we differ from uv: why, and what our reason says or the text looks like.
WE_REFUSE = (
    ("a marker's value with characters that mean something to requirements files", r"marker with characters", ""),
    ("options, variables, comments, paths, control characters: requirements-file syntax",
     r"option behind|a variable|a comment|is a path|control character|an option", ""),
    ("URLs of kinds that are never fetched, or with characters or credentials", r"URL of a kind|URL with char|password|name@1.2",
     ""),
    ("blanks beyond ASCII: uv skips them, packaging does not", r"PEP 508", r"\u00a0"),
    ("a URL with ';' behind it without a blank: packaging takes it into the URL", r"PEP 508", r"@ ?\S+;"),
    ("more behind === and no blank: old releases of packaging take it into the version", r"PEP 508", r"===\s*[^\s,;]+[,;)]"),
)
UV_REFUSES = (
    ("=== with something that is no version: uv knows versions only", r"===[^;]*[^0-9.,; ]"),
    ("empty parentheses", r"\(\s*\)"),
)


def compare(pairs):
    """[(text, ours, reason, uv's)] to {difference: number}; raises for a difference without a reason."""
    seen = {}
    for text, written, reason, theirs in pairs:
        if (written is not None) == (theirs == "yes"):
            continue
        if written is None:
            name = next((why for why, said, look in WE_REFUSE if re.search(said, reason) and re.search(look, text)), None)
        else:
            name = next((why for why, look in UV_REFUSES if re.search(look, text)), None)
        if name is None:
            raise AssertionError(f"{text!r}: we make {written!r} of it ({reason}), uv says {theirs}")
        who = "we refuse" if written is None else "uv refuses"
        seen[who, name] = seen.get((who, name), 0) + 1
    return seen


def test_requirements_against_uv():
    uv = rig.real_uv()
    parse = rig.load("parse")
    texts = list(dict.fromkeys([*list(real())[:300], *made_up(N_UV)]))
    with tempfile.TemporaryDirectory() as directory, concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        answers = list(pool.map(lambda pair: uv_takes(uv, directory, pair[0], block_of(pair[1])), enumerate(texts)))
    pairs = [(text, *ours(parse, text), theirs) for text, theirs in zip(texts, answers)]
    for (who, name), n in sorted(compare(pairs).items()):
        print(f"# {n}: {who}: {name}")
    n_both = sum(written is not None and theirs == "yes" for _, written, _, theirs in pairs)
    print(f"# {n_both} of {len(pairs)} taken by both")
    if n_both < 300:
        raise AssertionError("too few are taken by both")


def test_what_we_write_is_read_by_uv():
    uv = rig.real_uv()
    parse = rig.load("parse")
    written = {ours(parse, text)[0] for text in [*real(), *made_up(N_UV)]} - {None}
    # What is odd to uv is odd however it is written: see UV_REFUSES.
    plain = sorted(line for line in written if " @ " not in line and "===" not in line)
    with tempfile.TemporaryDirectory() as directory:
        script = "# /// script\n# dependencies = [" + ", ".join(f"'{line}'" for line in plain) + "]\n# ///\n"
        rig.equal(uv_takes(uv, directory, 0, script), "yes")
    if len(plain) < 200:
        raise AssertionError(f"only {len(plain)}")


# --- blocks --------------------------------------------------------------------------------------------------------------

FENCES = ["# /// script", "# /// script", "# /// script", "# /// script", "# /// script ", "#/// script", "# /// other", "# ///script"]
LINES = ["# dependencies = []", "# dependencies = ['a>=1']", "# requires-python = '>=3.8'", "#", "# [tool.x]", "# x = 1", "#y = 1",
         "# dependencies = ['a'", "", "x = 1", "# ///", "# /// script", "# dependencies = 'a'", "  # x"]
ENDS = ["# ///", "# ///", "# ///", "# ///", "# /// ", "#///", "", "# /// x"]

BLOCK_DIFFERENCES = (
    # (what our findings say, what uv makes of it, why)
    (r"is not closed", "none|no|yes", "an unclosed fence vanishes, or is an error without a line, in uv"),
    (r"is inside the one that opens", "no|yes", "a block inside one of another type, where the standard has none, is read by uv"),
    (r"opens no block, for blanks|looks like the start", "none|no|yes", "a fence with blanks vanishes in uv"),
)


def made_up_blocks(n):
    dice = random.Random(3197)
    for _ in range(n):
        lines = [dice.choice(["", "import os", "#!/usr/bin/env python3"])] if dice.random() < 0.5 else []
        for _ in range(dice.choice([1, 1, 1, 2])):
            lines += [dice.choice(FENCES), *(dice.choice(LINES[:6] if dice.random() < 0.8 else LINES)
                                             for _ in range(dice.randrange(4))), dice.choice(ENDS), "print()"]
        yield dice.choice(["", "", "", "\ufeff"]) + dice.choice(["\n", "\n", "\n", "\r\n"]).join(lines) + "\n"


def our_block(parse, script):
    """What we make of it in uv's words, and what our findings say."""
    findings = parse.Findings()
    block = parse.find_block(script, findings)
    reader = parse.Reader({"script": script, "dependencies": [], "lines": [], "policy": POLICY, "interpreters": []})
    reader.read_script()
    text = " ".join(entry["message"] for entry in reader.findings.entries)
    if reader.findings.n_errors:
        return "no", text
    return ("yes" if block is not None else "none"), text


def test_blocks_against_uv():
    uv = rig.real_uv()
    parse = rig.load("parse")
    scripts = list(dict.fromkeys(made_up_blocks(N_BLOCKS)))
    with tempfile.TemporaryDirectory() as directory, concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        answers = list(pool.map(lambda pair: uv_takes(uv, directory, *pair), enumerate(scripts)))
    seen, n_same = {}, 0
    for script, theirs in zip(scripts, answers):
        mine, text = our_block(parse, script)
        if mine == theirs:
            n_same += 1
            continue
        reason = next((why for pattern, what, why in BLOCK_DIFFERENCES
                       if re.search(pattern, text) and theirs in what.split("|")), None)
        if reason is None:
            raise AssertionError(f"{script!r}: we say {mine} ({text}), uv says {theirs}")
        seen[reason] = seen.get(reason, 0) + 1
    print(f"# {n_same} of {len(scripts)} the same")
    for reason, n in sorted(seen.items()):
        print(f"# {n}: {reason}")
    if n_same < N_BLOCKS // 3:
        raise AssertionError("too few are the same")


if __name__ == "__main__":
    rig.main()
