# SPDX-License-Identifier: MIT
"""What uv and the network say, as sentences for the caller, each with what to do."""

import re

from common import BrokenUv, DiskFull, Failed, NoGit, end_of, printable, secrets

WARNINGS_MAX = 20
NAME = "mcp-exec-script"  # of the project that stands for the script; replaced in what uv says
HOW_TO_DECLARE = "Check the spelling: the name to install is not always the name to import."
# Modules that are often named where their package belongs, as uv writes names.
PACKAGES_OF_MODULES = {
    "cv2": "opencv-python-headless", "dateutil": "python-dateutil", "docx": "python-docx", "dotenv": "python-dotenv",
    "fitz": "pymupdf", "openssl": "pyopenssl", "pil": "pillow", "pptx": "python-pptx", "skimage": "scikit-image",
    "sklearn": "scikit-learn", "yaml": "pyyaml",
}


def other_name(cause):
    for module, package in PACKAGES_OF_MODULES.items():
        if re.search(rf"(?<![\w.-]){module}(?![\w-]|\.\w)", cause):
            return f" The module {module} comes with the package {package}."
    return ""


def causes(text):
    """uv's own words for what went wrong, as one sentence about the script."""
    lines = []
    for line in text.splitlines():
        if line.startswith(("warning:", "hint:", "Resolved ", "Using ")):
            continue
        lines.append(re.sub(r"^\s*(error|cause): *", "", line).strip())
    result = " ".join(line for line in lines if line)
    result = result.replace("No solution found when resolving dependencies", "").strip()
    return about_script(result)


def last_words(text):
    """Why a build gave up: what was said last, and before it the last error if that is not among it. uv hands on two streams
    as they come."""
    lines = [line.strip() for line in text.splitlines() if not re.match(r"error: Failed to build|\s*cause:", line)]
    errors = [line for line in lines if re.search(r"error|fatal|exception", line, re.IGNORECASE)]
    error = printable(errors[-1], 200) if errors else ""
    told = end_of(causes(text), 600)
    return told if error in told else f"{error} {end_of(causes(text), 380)}"


def about_script(text):
    return re.sub(rf"`?\b{NAME}(==0)?\b`?", "the script", text)


def host_of(text):
    found = re.search(r"https?://([^/\s)`]+)", secrets.hide(text))
    return found[1].rsplit("@", 1)[-1] if found else "the index"


# Texts of uv and of the libraries below it. First match wins. {host} and {cause} are filled in.
NETWORK_RULES = (
    (r"tunnel error|proxy|407 Proxy Authentication", "proxy",
     "The proxy refuses or does not answer ({cause}). The administrator has to check Proxy= in mcp-exec.conf, and what the proxy "
     "allows."),
    (r"\b401\b|Unauthorized", "unauthorized",
     "{host} demands credentials or does not take those that are configured (401). The administrator has to check "
     "IndexCredentials= in mcp-exec.conf."),
    (r"\b403\b|Forbidden", "unauthorized",
     "{host} denies access (403). The administrator has to check the index and its credentials (IndexUrl=, IndexCredentials= in "
     "mcp-exec.conf)."),
    (r"dns error|failed to lookup address|Name or service not known|name resolution", "dns",
     "The name {host} cannot be resolved. Try again later; if it stays so, the administrator has to check the index URL and "
     "DNS."),
    # Not all that goes wrong with TLS: who breaks a handshake off has shown no certificate.
    (r"certificate|UnknownIssuer|CertNotValid|invalid peer|InvalidCertificate", "tls",
     "The certificate of {host} is not trusted. The administrator may have to name a CA bundle (CaBundle= in "
     "mcp-exec.conf)."),
    (r"\b(500|502|503|504)\b|Internal Server Error|Bad Gateway|Service Unavailable", "index",
     "{host} has a problem of its own ({cause}). Try again later."),
    (r"timed? ?out|operation timed out|deadline", "index",
     "{host} does not answer in time. Try again later; if it stays so, the administrator has to check the index URL."),
    (r"Connection refused|connection refused|tcp connect error|Connection reset|connection closed|unreachable|"
     r"error sending request|IncompleteMessage|connection error", "index",
     "{host} cannot be reached ({cause}). Try again later; if it stays so, the administrator has to check the index URL."),
)

SOLUTION_RULES = (
    (r"lack of valid authentication credentials|403 Forbidden|401 Unauthorized", "unauthorized",
     "{host} demands credentials or does not take those that are configured. The administrator has to check the index and its "
     "credentials (IndexUrl=, IndexCredentials= in mcp-exec.conf)."),
    (r"URL dependency", "policy",
     "A package depends on something at a URL; only packages of the index are allowed here. {cause}"),
    (r"invalid package format|invalid metadata|inconsistent metadata", "index",
     "The file of a package on the index is broken, or its transfer broke off. {cause} Try again, or use another version."),
    (r"was not found in the package registry|were not found in the package registry|not found in the provided package",
     "unknown-package", "The index knows no such package. {cause} " + HOW_TO_DECLARE),
    (r"no usable wheels|has no wheels|building from source is disabled|no source distribution|"
     r"only found wheels for|has no `?.{0,20}`? ?wheels", "no-wheel",
     "There is no ready-made wheel of a package for this machine and Python, and packages are not built from source here. "
     "{cause} Use another version that has wheels, or another package."),
    (r"current Python version|requested Python version|does not satisfy Python", "python",
     "A package does not support the script's Python version. {cause}"),
    (r"there (is|are) no versions? of|was filtered by `exclude-newer`|only .{1,200} (is|are) available", "no-version",
     "No version fits. {cause} Loosen the constraint or use an existing version."),
    (r"unsatisfiable|No solution found|cannot be used|incompatible", "no-solution",
     "The requirements contradict each other. {cause} Loosen one of them."),
)


def short_cause(text):
    """The last and most exact of the causes."""
    found = re.findall(r"^[ \t]*cause: *(.*)$", text, re.MULTILINE)
    return (found[-1] if found else text.strip().splitlines()[-1] if text.strip() else "no reason given").rstrip(".")


def explain_uv(text, status):
    """What uv wrote on stderr, as a Failed."""
    if "Git executable not found" in text:
        return NoGit()
    if re.search(r"[Hh]ash mismatch", text):
        return Failed("hash-mismatch", f"A file from {host_of(text)} is not what it should be: its sha256 differs. Nothing was "
                      "installed. Try again; if it stays so, the index, a mirror or a cache before it is broken or hostile, or "
                      "the hash that the script gives is wrong.")
    if re.search(r"No space left on device|os error 28\b|Disk quota exceeded|os error 122\b", text):
        return DiskFull()
    is_solution = "No solution found" in text or "URL dependency" in text
    # A package may be called "proxy", and a host "certificates".
    told = re.sub(r"https?://\S+", "URL", text)
    if not is_solution:
        told = re.sub(r"([`'\"])[^\s`'\"]+\1", "NAME", told)
    for pattern, kind, sentence in SOLUTION_RULES if is_solution else NETWORK_RULES:
        if re.search(pattern, told, re.IGNORECASE if not is_solution else 0):
            hint = ""
            if kind == "no-version" and "exclude-newer" in text:
                hint = " Versions newer than the configured date are not taken."
            cause = causes(text) if is_solution else short_cause(text)
            if kind in ("unknown-package", "no-wheel"):
                hint = other_name(cause)
            return Failed(kind, sentence.format(host=host_of(text), cause=printable(cause, 600)) + hint)
    if re.search(r"Python|interpreter", text) and re.search(r"not found|No interpreter|Failed to (query|inspect)", text):
        return Failed("python", f"uv cannot use the interpreter: {causes(text)}")
    if re.search(r"Failed to (parse|resolve)|expected|invalid|Unsupported|metadata|Missing|https?://", text, re.IGNORECASE):
        return Failed("index", f"The index gave an answer that is not understood: {causes(text)}")
    told = causes(text)
    if not told:
        return BrokenUv(f"failed with status {status} and gave no reason")
    return Failed("internal", f"uv failed with status {status}: {printable(told, 700).rstrip('.')}. Try again; if it stays so, the "
                  "administrator has to look whether uv works (mcp-exec check), and to install it anew if it does not.")


def warnings_of(text):
    result = []
    for line in text.splitlines():
        if line.startswith("warning: "):
            sentence = about_script(line.removeprefix("warning: "))
            yanked = re.match(r"`([^`]+)` is yanked(?: \(reason: \"?(.*?)\"?\))?", sentence)
            if yanked:
                reason = f" ({yanked[2].rstrip('.')})" if yanked[2] else ""
                sentence = f"{yanked[1]} was withdrawn by its authors{reason}; use another version."
            result.append(printable(sentence, 300))
    return result[:WARNINGS_MAX]
