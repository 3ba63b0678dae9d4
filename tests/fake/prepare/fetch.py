# SPDX-License-Identifier: MIT
"""A FETCH that fetches nothing. What it does is in the names of the requirements; the rest is as the contract says
(src/runner/prepare/README.md)."""

import hashlib
import json
import os
import sys
import time

order = json.load(sys.stdin)
names = [r.split("=")[0].split(" ")[0] for r in order["requirements"]]


def say(phase):
    print("@ " + phase, file=sys.stderr, flush=True)


def end(answer):
    print(json.dumps(answer), flush=True)
    sys.exit(0)


say("resolving")
for name in names:
    if name == "slow":
        say("downloading 1/2 slow")
        time.sleep(60)
    elif name == "slowish":
        time.sleep(0.3)
    elif name == "half-made":
        os.makedirs("/env/.wheels/a/b")
        open("/env/.wheels/a/b/c", "w").close()
        os.chmod("/env/.wheels/a", 0o500)
        end({"error": {"kind": "hash-mismatch", "message": "The file of half-made is not what the index says."}})
    elif name == "unknown":
        end({"error": {"kind": "unknown-package", "message": "There is no package unknown."}})
    elif name == "denied":
        end({"error": {"kind": "policy", "message": "The administrator denies denied."}})
    elif name == "internal":
        end({"error": {"kind": "policy", "message": "The administrator can allow it.",
                       "internal_hosts": [{"host": "index.example", "address": "10.0.0.1"}, {"host": "::1", "address": "::1"}]}})
    elif name == "unsolvable":
        end({"error": {"kind": "no-solution", "message": "Thus the script's requirements have no solution, and the script "
                       "not either."}})
    elif name == "no-room":
        end({"error": {"kind": "disk-full", "message": "The disk is full."}})
    elif name == "dies":
        print("Traceback: boom", file=sys.stderr)
        sys.exit(3)
    elif name == "silent":
        sys.exit(0)
    elif name == "garbage":
        print("this is no JSON")
        sys.exit(0)
    elif name == "endless":
        while True:
            sys.stdout.write("x" * 65536)
    elif name == "bad-lock":
        end({"lock_sha256": "../../../etc", "is_known": False, "packages": [], "warnings": []})
    elif name == "bad-message":
        end({"error": {"kind": "index", "message": "two\nlines"}})

lock = hashlib.sha256("\n".join(n for n in names if not n.startswith("alias")).encode()).hexdigest()
warnings = ["yanked 1.0 was withdrawn by its authors."] if "yanked" in names else []
if lock in order["known_locks"]:
    end({"lock_sha256": lock, "is_known": True, "packages": [], "warnings": warnings})
with open("/env/.lock", "w") as f:
    f.write(lock)
end({"lock_sha256": lock, "is_known": False, "packages": [], "download_bytes": 0, "warnings": warnings})
