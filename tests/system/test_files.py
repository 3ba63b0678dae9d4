# SPDX-License-Identifier: MIT
"""The files that a program leaves in its working directory, on a real systemd: out of a dead unit's tmpfs."""

import base64
import json
import pathlib
import struct
import tempfile
import time
import zlib

from lib import Client, StdioClient, configured, needs, one_release, record_of, sh, timeout, wait_until

USER_NEEDS = needs("user-manager-257")


def _png(side=1):
    def chunk(name, data):
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
    rows = (b"\0" + b"\x10\x20\x30" * side) * side
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)) +
            chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


def _files(r):
    return {f["path"]: f for f in r.get("files", [])}


def test_text_comes_back_from_cold_and_warm_units():
    code = ("import os\nos.makedirs('out/deep')\nopen('out/deep/t.csv', 'w').write('a,b\\n1,2\\n')\n"
            "open('note.txt', 'w').write('grüße')")
    expected = [{"path": "note.txt", "bytes": 7, "mime_type": "text/plain", "text": "grüße"},
                {"path": "out/deep/t.csv", "bytes": 8, "mime_type": "text/csv", "text": "a,b\n1,2\n"}]
    for pool in (0, 1):
        with configured(f"[Exec]\nPoolSize={pool}\n"), Client() as c:
            for _ in range(3):
                r = c.exec(code)
                assert r["files"] == expected and "files_note" not in r, r


def test_files_that_were_sent_are_in_the_working_directory_of_cold_and_warm_units():
    sent = [{"name": "a.csv", "text": "1,2\n"}, {"name": "b.bin", "base64": base64.b64encode(bytes(range(256)) * 999).decode()}]
    for pool in (0, 1):
        with configured(f"[Exec]\nPoolSize={pool}\n"), Client() as c:
            for _ in range(3):
                r = c.exec("print(open('a.csv').read(), open('b.bin', 'rb').read() == bytes(range(256)) * 999)", files=sent)
                assert r["stdout"] == "1,2\n True\n" and "files" not in r, r
            r = c.call("execute_python", {"script": "print(open('a.csv').read())", "files": sent})["structuredContent"]
            assert r["stdout"] == "1,2\n\n" and "files" not in r, r


def test_files_that_find_no_room_are_the_callers_affair_and_not_the_sandboxes():
    sent = [{"name": f"f{i}", "base64": base64.b64encode(bytes(700000)).decode()} for i in range(4)]
    for pool in (0, 1):
        with configured(f"[Sandbox]\nTmpfsSize=1M\n[Exec]\nMaxStdinBytes=4M\nPoolSize={pool}\n"), Client() as c:
            r = c.exec("print(1)", files=sent)
            assert (r["status"], r["exit_code"], r["stdout"]) == ("error", 1, ""), r
            assert r["stderr"] == "mcp-exec: the program could not be put in place: No space left on device\n", r
            assert len(r["hints"]) == 1 and "1 MiB" in r["hints"][0], r


def test_a_run_without_files_says_nothing_of_them():
    with Client() as c:
        r = c.exec("open('/tmp/elsewhere', 'w').write('x'); open('/dev/shm/too', 'w').write('x')\n"
                   "import sys; sys.path.insert(0, '.')\nopen('helper.py', 'w').close()\n"
                   "import os, helper; os.unlink('helper.py')")
        assert "files" not in r and "files_note" not in r, r


def test_an_image_is_a_content_block():
    png = _png(16)
    with Client() as c:
        result = c.call("exec", {"code": f"open('plot.png', 'wb').write({png!r}); open('a.bin', 'wb').write(b'\\0')"})
        r = result["structuredContent"]
        assert _files(r)["plot.png"] == {"path": "plot.png", "bytes": len(png), "mime_type": "image/png",
                                         "image": 1}, r
        other = _files(r)["a.bin"]
        assert other["bytes"] == 1 and len(other["sha256"]) == 64 and "neither text" in other["reason"], other
        assert [b["type"] for b in result["content"]] == ["text", "image"], result
        assert base64.b64decode(result["content"][1]["data"]) == png
        assert result["content"][1]["mimeType"] == "image/png"
        assert json.loads(result["content"][0]["text"]) == r


@needs("science")
@timeout(120)
def test_a_chart_is_shown():
    with Client() as c:
        result = c.call("exec", {"code": "import matplotlib.pyplot as p\np.plot([1, 3, 2])\np.savefig('chart.png')"})
        r = result["structuredContent"]
        assert r["status"] == "ok" and r["stderr"] == "", r
        assert _files(r)["chart.png"]["image"] == 1, r
        assert base64.b64decode(result["content"][1]["data"])[:8] == b"\x89PNG\r\n\x1a\n"


def test_private_files_are_opened_up_at_a_normal_end_only():
    begin = ("import tempfile, time\nf = tempfile.NamedTemporaryFile('w', dir='.', prefix='p', delete=False)\n"
             "f.write('private'); f.flush()\n")
    with Client() as c:
        r = c.exec(begin)
        assert [f.get("text") for f in r["files"]] == ["private"], r
        r = c.exec(begin + "time.sleep(60)", timeout_s=1)
        assert r["status"] == "timeout", r
        assert "text" not in r["files"][0] and r["files"][0]["bytes"] == 7, r
        assert r["files"][0]["reason"].startswith("Private:"), r


def test_what_points_elsewhere_is_not_followed():
    with Client() as c:
        r = c.exec("import os\nos.symlink('/etc/passwd', 'passwd')\nos.symlink('/', 'root')\nos.mkfifo('fifo')\n"
                   "os.symlink('..', 'up')\nos.mkdir('d')\nos.symlink('../../home', 'd/home')\n"
                   "os.link('main.py', 'copy.py')\nos.truncate(os.open('sparse', os.O_CREAT | os.O_RDWR), 1 << 29)")
        f = _files(r)
        assert sorted(f) == ["copy.py", "d/home", "fifo", "passwd", "root", "sparse", "up"], r
        for name in ("d/home", "passwd", "root", "up"):
            assert f[name] == {"path": name, "bytes": 0, "reason": "A symbolic link, which is not followed."}, f
        assert f["fifo"]["reason"] == "Not a regular file.", f
        assert "text" in f["copy.py"], f
        assert f["sparse"]["bytes"] == 1 << 29 and f["sparse"]["reason"].startswith("Larger than"), f


def test_names_may_be_anything():
    with Client() as c:
        r = c.exec("open(b'bad\\xff', 'w').write('x'); open('new\\nline \\x1b[31m', 'w').write('y')\n"
                   "open('n' * 255, 'w').write('z')")
        f = _files(r)
        assert f["bad\ufffd"]["reason"] == "Its name is not UTF-8, or too long.", r
        assert f["new\nline \x1b[31m"]["text"] == "y" and f["n" * 255]["text"] == "z", r


def test_runs_do_not_see_each_others_files():
    with Client() as c:
        first = c.exec("open('secret-7311', 'w').write('x')")
        assert list(_files(first)) == ["secret-7311"], first
        second = c.exec("import os; print(os.listdir('.'))")
        assert second["stdout"] == "['main.py']\n" and "files" not in second, second
        waiting = c.start("exec", {"code": "import time; open('one', 'w').close(); time.sleep(2)"})
        other = c.exec("open('two', 'w').close()")
        assert list(_files(other)) == ["two"], other
        assert list(_files(waiting.result()["structuredContent"])) == ["one"]


@timeout(120)
def test_many_files_are_counted_and_leave_nothing_behind():
    with Client() as c:
        r = c.exec("for i in range(10000): open(f'{i:05}', 'w').write('x')")
        assert len(r["files"]) == 32 and r["files"][31]["path"] == "00031", r["files"]
        assert r["files_note"] == "9968 more of what it left is not listed.", r["files_note"]
        record = record_of(r["run_id"])
        assert record["MCP_EXEC_FILES"] == "10000" and record["MCP_EXEC_FILES_BYTES"] == "10000", record
        assert "00031" not in json.dumps(record), record


def test_limits_are_settings():
    with configured("[Exec]\nMaxFiles=2\nMaxFileBytes=4\nMaxFilesBytes=5\nMaxFilesDepth=0\n"), Client() as c:
        r = c.exec("import os\nopen('a', 'w').write('four')\nopen('b', 'w').write('to')\nos.mkdir('c')")
        assert [(f["path"], f.get("text")) for f in r["files"]] == [("a", "four"), ("b", None)], r
        assert r["files"][1]["reason"] == "The files before it took the 5 bytes there are for all of them.", r
        assert r["files_note"] == "1 more of what it left is not listed.", r
    with configured("[Exec]\nMaxFiles=0\n"), Client() as c:
        r = c.exec("open('a', 'w').write('x')")
        assert "files" not in r and "files_note" not in r, r


@timeout(120)
@one_release
def test_the_deadline_holds_with_thousands_of_files():
    code = ("import os, time\nbegan = time.monotonic()\n"
            "for i in range(5000):\n  d = f'd{i % 50}'\n  os.makedirs(d, exist_ok=True)\n"
            "  open(f'{d}/{i}', 'w').write('x' * 100)\n"
            "print(began, 'made', flush=True)\nwhile True: pass")
    with Client() as c:
        c.exec("pass")
        r = c.exec(code, timeout_s=10)
        answered = time.monotonic()
        began, made = r["stdout"].split()
        assert r["status"] == "timeout" and made == "made", r
        # The program's own clock starts after the server's: by what an interpreter takes to start.
        assert 9 <= answered - float(began) <= 10.5, answered - float(began)
        assert len(r["files"]) == 32 and r["files_note"] == "4968 more of what it left is not listed.", r


def test_files_of_a_background_run_are_in_its_kept_result():
    png = _png(4)
    with Client() as c:
        begun = c.exec(f"import time; time.sleep(1); open('late.txt', 'w').write('here')\n"
                       f"open('late.png', 'wb').write({png!r})", background=True)
        for _ in range(2):
            result = c.call("get_run", {"run_id": begun["run_id"], "wait_s": 30})
            assert result["structuredContent"]["status"] == "ok", result
            assert _files(result["structuredContent"])["late.txt"]["text"] == "here", result
            assert base64.b64decode(result["content"][1]["data"]) == png, result


def test_run_saves_files_of_the_system_service():
    with tempfile.TemporaryDirectory() as where:
        code = "import os\nos.makedirs('a/b')\nopen('a/b/c', 'wb').write(bytes(range(256)))\nopen('t', 'w').write('x')"
        done = sh(["mcp-exec", "run", "--output-dir", where + "/out", "-"], input=code, check=False)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", ""), done
        assert pathlib.Path(where, "out/a/b/c").read_bytes() == bytes(range(256))
        assert pathlib.Path(where, "out/t").read_text() == "x"
        again = sh(["mcp-exec", "run", "--output-dir", where + "/out", "-"], input=code, check=False)
        assert again.returncode == 125 and again.stderr == ("mcp-exec: t was not saved: File exists\n"
                                                            "mcp-exec: a/b/c was not saved: File exists\n"), again


def test_a_client_that_goes_away_leaves_nothing():
    with configured("[Exec]\nPoolSize=0\n"), Client() as c:
        c.exec("pass")
        before = _service_descriptors()
        for delay in (0.1, 0.3, 0.5, 0.7):
            with Client() as other:
                other.start("exec", {"code": "for i in range(3000): open(str(i), 'w').close()"})
                time.sleep(delay)
                other.vanish()
        c.exec("pass")
        wait_until(lambda: _service_descriptors() == before, 20, "no descriptor is left of them")


def _service_descriptors():
    pid = sh(["systemctl", "show", "-p", "MainPID", "--value", "mcp-exec.service"]).stdout.strip()
    return len(list(pathlib.Path(f"/proc/{pid}/fd").iterdir()))


@USER_NEEDS
def test_user_mode_brings_files_back():
    png = _png(8)
    with StdioClient("alice", arguments=("--no-bridge",)) as c:
        for _ in range(2):
            result = c.call("exec", {"code": f"open('a.txt', 'w').write('mine')\nopen('b.png', 'wb').write({png!r})\n"
                                             "import os\nos.symlink('/etc/passwd', 'passwd')"})
            r = result["structuredContent"]
            assert _files(r)["a.txt"]["text"] == "mine" and _files(r)["b.png"]["image"] == 1, (r, c.stderr)
            assert _files(r)["passwd"]["reason"] == "A symbolic link, which is not followed.", r
            assert base64.b64decode(result["content"][1]["data"]) == png
        r = c.exec("import time\nopen('early', 'w').write('x')\ntime.sleep(60)", timeout_s=1)
        assert r["status"] == "timeout" and _files(r)["early"]["text"] == "x", r
