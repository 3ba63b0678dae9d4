# SPDX-License-Identifier: MIT
"""Sources that bring their own way of being built, so that no other package is needed for it; as a distribution, and in a
git repository behind an index of wheels.py."""

import io
import os
import pathlib
import subprocess
import tarfile

BACKEND = """
import base64, hashlib, zipfile
def build_wheel(directory, config_settings=None, metadata_directory=None):
    report, version = "nothing", "1.0"
    CODE
    file, about = f"NAME-{version}-py3-none-any.whl", f"NAME-{version}.dist-info"
    files = {"NAME.py": f"report = {report!r}\\n",
             about + "/METADATA": f"Metadata-Version: 2.1\\nName: PROJECT\\nVersion: {version}\\n",
             about + "/WHEEL": "Wheel-Version: 1.0\\nGenerator: test\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n"}
    record = about + "/RECORD,,\\n"
    for name, text in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
        record += f"{name},sha256={digest},{len(text.encode())}\\n"
    with zipfile.ZipFile(directory + "/" + file, "w") as archive:
        for name, text in {**files, about + "/RECORD": record}.items():
            archive.writestr(zipfile.ZipInfo(name), text)
    return file
def build_sdist(directory, config_settings=None):
    raise NotImplementedError
"""
PROJECT = """[build-system]
requires = []
build-backend = "backend"
backend-path = ["."]
[project]
name = "%s"
version = "1.0"
"""


def files_of(project, code=""):
    """code: what is done at its build; what it leaves in "report" is the module's."""
    name = project.replace("-", "_")
    indented = "\n    ".join(code.strip("\n").splitlines())
    return {"PKG-INFO": f"Metadata-Version: 2.1\nName: {project}\nVersion: 1.0\n", "pyproject.toml": PROJECT % project,
            "backend.py": BACKEND.replace("CODE", indented or "pass").replace("NAME", name).replace("PROJECT", project)}


def distribution(project, code=""):
    """(file's name, content)"""
    stem = project.replace("-", "_") + "-1.0"
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as archive:
        for path, text in files_of(project, code).items():
            entry = tarfile.TarInfo(f"{stem}/{path}")
            entry.size = len(text.encode())
            archive.addfile(entry, io.BytesIO(text.encode()))
    return stem + ".tar.gz", out.getvalue()


def repository(directory, project, code="", folder=".", module=None, module_commit="1" * 40, tag=None):
    """Makes DIRECTORY/PROJECT.git, and returns its last commit. folder: where in it the project is. module: URL of a
    repository that belongs to it. tag: of the commit before the last one; then the build says which version it is."""
    work = pathlib.Path(directory, project)
    work.mkdir()
    (work / folder).mkdir(exist_ok=True)
    for path, text in files_of(project, code).items():
        if tag:
            text = text.replace('version = "1.0"\n', 'dynamic = ["version"]\n')
        (work / folder / path).write_text(text)
    environment = {"PATH": os.environ["PATH"], "HOME": str(work), "GIT_AUTHOR_NAME": "t", "GIT_AUTHOR_EMAIL": "t@example.org",
                   "GIT_COMMITTER_NAME": "t", "GIT_COMMITTER_EMAIL": "t@example.org"}
    link = []
    if module:
        (work / ".gitmodules").write_text(f'[submodule "part"]\n\tpath = part\n\turl = {module}\n')
        link = [f"update-index --add --cacheinfo 160000,{module_commit},part"]
    tagged = [f"tag -a -m tagged {tag}", "commit -q --allow-empty -m two"] if tag else []
    for command in ("init -q -b main", "add .", *link, "commit -q -m one", *tagged, f"clone -q --bare . {work}.git"):
        subprocess.run(["git", *command.split()], cwd=work, env=environment, check=True)
    return subprocess.run(["git", "rev-parse", "HEAD"], cwd=work, env=environment, check=True, capture_output=True,
                          text=True).stdout.strip()


def answer_of_git(directory, method, path, headers, body):
    """(status, headers, content) of git's own CGI program for a request below the directory."""
    path, _, query = path.partition("?")
    environment = {"PATH": os.environ["PATH"], "GIT_PROJECT_ROOT": str(directory), "GIT_HTTP_EXPORT_ALL": "1",
                   "REQUEST_METHOD": method, "PATH_INFO": path, "QUERY_STRING": query, "REMOTE_ADDR": "127.0.0.1",
                   "CONTENT_TYPE": headers.get("Content-Type", ""), "GIT_PROTOCOL": headers.get("Git-Protocol", ""),
                   "HTTP_CONTENT_ENCODING": headers.get("Content-Encoding", ""), "CONTENT_LENGTH": str(len(body)),
                   "GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "safe.directory", "GIT_CONFIG_VALUE_0": "*"}
    done = subprocess.run(["git", "http-backend"], env=environment, input=body, capture_output=True)
    head, _, content = done.stdout.partition(b"\r\n\r\n")
    told = dict(line.split(": ", 1) for line in head.decode().split("\r\n") if ": " in line)
    return int(told.pop("Status", "200").split()[0]), told, content


def without_network(module, name, index):
    """A script that prints what a module has, and whether the index can be reached from where it runs."""
    return f"""
import socket, {module}
print({module}.{name})
try:
    socket.create_connection(("127.0.0.1", {index.port}), 5)
    print("connected")
except OSError:
    print("no network")
"""
