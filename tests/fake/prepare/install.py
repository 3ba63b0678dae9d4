# SPDX-License-Identifier: MIT
"""An INSTALL that installs nothing but what makes a set of packages one (src/runner/prepare/README.md)."""

import json
import os
import platform
import sys
import time

order = json.load(sys.stdin)
names = [r.split("=")[0] for r in order["requirements"]]

print("@ compiling 1/1", file=sys.stderr, flush=True)
with open("/env/.lock") as f:
    if f.read() != order["lock_sha256"]:
        sys.exit(4)
if "bad-wheel" in names:
    print(json.dumps({"error": {"kind": "wheel", "message": "The file of bad-wheel has a link that leaves it."}}))
    sys.exit(0)
if "slow-install" in names:
    time.sleep(60)
os.mkdir("/env/bin")
os.symlink(order["python"], "/env/bin/python3")
with open("/env/pyvenv.cfg", "w") as f:
    f.write(f"home = {os.path.dirname(order['python'])}\ninclude-system-site-packages = false\n")
os.unlink("/env/.lock")
facts = {"version": 1, "python": order["python"], "python_version": platform.python_version(),
         "requirements": order["requirements"], "lock_sha256": order["lock_sha256"],
         "packages": [{"name": n, "version": "1.0", "file": n + ".whl", "sha256": "0" * 64} for n in names],
         "size_bytes": 1000000, "n_files": 7, "console_scripts": [], "created_usec": time.time_ns() // 1000}
if "liar" in names:
    facts["lock_sha256"] = "f" * 64
if "no-facts" not in names:
    with open("/env/mcp-exec-set.json", "w") as f:
        json.dump(facts, f)
print(json.dumps({"packages": [], "size_bytes": 1000000, "n_files": 7, "console_scripts": [], "n_not_compiled": 0}))
