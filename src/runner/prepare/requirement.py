# SPDX-License-Identifier: MIT
"""One requirement: read by the reference library, checked, and written anew in the one way that we write them."""

import re
import sys

from common import canonical, pattern_matches, printable

try:
    from packaging.markers import InvalidMarker
    from packaging.requirements import InvalidRequirement, Requirement
    from packaging.specifiers import InvalidSpecifier, SpecifierSet
    from packaging.version import InvalidVersion, Version
except ImportError:
    sys.exit("the interpreter has no module 'packaging' (Debian: python3-packaging)")

REQUIREMENT_BYTES_MAX = 512

NAME = r"[a-z0-9]+(?:-[a-z0-9]+)*"
SPEC = r"(?:===|==|!=|<=|>=|~=|<|>)[A-Za-z0-9._+!*-]+"
URL = r"(?:https|git\+https)://[A-Za-z0-9._~:/?#@!&*+,=%-]+"
MARKER = r'[A-Za-z0-9_.+*!,<>=~() "-]+'
LINE = re.compile(rf"{NAME}(?:\[{NAME}(?:,{NAME})*\])?(?:{SPEC}(?:,{SPEC})*| @ {URL})?(?: ; {MARKER})?")
# What a marker compares with. A blank before a hyphen would look like an option to readers of requirements files.
MARKER_VALUE = re.compile(r"[A-Za-z0-9_.+*!,~()-]*(?: [A-Za-z0-9_.+*!,~()][A-Za-z0-9_.+*!,~()-]*)*")


class Refused(Exception):
    """A requirement that is not taken; the text is the reason, kind says of which sort."""

    def __init__(self, message, kind="requirement"):
        super().__init__(message)
        self.kind = kind


def refuse_by_look(text, policy):
    """What is no requirement at all but something that a package client also takes, with a reason of its own."""
    stripped = text.strip()
    if not stripped:
        raise Refused("is empty")
    if len(text.encode(errors="replace")) > REQUIREMENT_BYTES_MAX:
        raise Refused(f"is longer than {REQUIREMENT_BYTES_MAX} bytes", "limit")
    if re.search(r"[\x00-\x08\x0a-\x1f\x7f-\x9f\u2028\u2029]", text):
        raise Refused("contains a newline or another control character; each entry is one package")
    if stripped.startswith("-"):
        raise Refused("is an option of a package client; only names of packages with versions are taken. Indexes are "
                      "configured by the administrator")
    if "${" in text or re.search(r"\$[A-Za-z_]", text):
        raise Refused("contains a variable; variables are not replaced here")
    if re.search(r"\s--?[a-z]", text):
        raise Refused("has an option behind it; options are not taken")
    if stripped.startswith("#") or re.search(r"\s#", text):
        raise Refused("contains a comment; write comments outside of the quotes")
    if re.match(r"[a-z+]+://|[a-z]+\+[a-z]+:|file:", stripped, re.IGNORECASE):
        if not policy["vcs" if "+" in re.split("[:/]", stripped)[0] else "direct_urls"]:
            raise Refused("is a URL; only packages of the index, by their names, are allowed here", "policy")
        raise Refused("is a URL without a name; it is written 'name @ URL'")
    if re.match(r"[.~/\\]|[A-Za-z]:\\", stripped) or "\\" in text or (
            "@" not in text and (re.match(r"[^\[;<>=!~]*/", stripped) or
                                 re.search(r"\.(whl|tar\.gz|tar\.bz2|tgz|zip)$", stripped))):
        raise Refused("is a path; files of the caller or the server cannot be installed, only packages of the index")


def explain_syntax(text, error):
    """What is wrong with it, and for the frequent mistakes what to write instead."""
    reason = printable(str(error).split("\n")[0], 200).rstrip(".")
    if re.match(r"^[A-Za-z0-9._\[\], -]+=[^=]", text) and not re.search(r"[<>!~=]=", text):
        return f"is not a requirement: a version is compared with '==', not '='. ({reason})"
    if re.match(r"^[A-Za-z0-9._-]+ +[A-Za-z0-9._-]+$", text.strip()):
        return f"is not a requirement: each package is an entry of its own, a version is written 'name==1.2'. ({reason})"
    return f"is not a requirement as PEP 508 describes them: {reason}"


def check_url(url, policy):
    is_vcs = "+" in url.split("://")[0]
    if is_vcs and not policy["vcs"]:
        raise Refused("names a version control system; only packages of the index are allowed here", "policy")
    if not is_vcs and not policy["direct_urls"]:
        raise Refused("names a URL; only packages of the index are allowed here", "policy")
    if not url.startswith("git+https://" if is_vcs else "https://"):
        raise Refused("has a URL of a kind that is not taken; https:// and git+https:// are")
    if "@" in url.split("://", 1)[1].split("/")[0]:
        raise Refused("has a user name or a password in its URL; they do not belong into a script")
    if not re.fullmatch(URL, url):
        raise Refused("has a URL with characters that are not taken")
    return url


def serialise_marker(marker):
    text = str(marker)
    # packaging writes values between double quotes and does not escape what is in them.
    parts = text.split('"')
    if len(parts) % 2 == 0 or not re.fullmatch(MARKER, text) or any(
            MARKER_VALUE.fullmatch(value) is None for value in parts[1::2]):
        raise Refused("has a marker with characters that are not taken")
    return text


def serialise(requirement, policy):
    """The one way in which we write what a requirement says."""
    name = canonical(requirement.name)
    text = name
    if requirement.extras:
        text += "[" + ",".join(sorted({canonical(extra) for extra in requirement.extras})) + "]"
    if requirement.url:
        text += " @ " + check_url(requirement.url, policy)
    else:
        text += ",".join(sorted(str(spec).replace(" ", "") for spec in requirement.specifier))
    if requirement.marker is not None:
        text += " ; " + serialise_marker(requirement.marker)
    if LINE.fullmatch(text) is None:
        raise Refused("has characters that are not taken")
    if len(text) > REQUIREMENT_BYTES_MAX:
        raise Refused(f"is longer than {REQUIREMENT_BYTES_MAX} bytes", "limit")
    # What is passed on must mean what was read.
    again = Requirement(text)
    if (canonical(again.name), again.specifier, str(again.marker), again.url or None) != (
            name, requirement.specifier, str(requirement.marker), requirement.url or None):
        raise Refused("cannot be written in one unambiguous way")
    return text


def check_names(name, policy):
    if any(pattern_matches(pattern, name) for pattern in policy["deny"]):
        raise Refused(f"is not allowed here: the administrator denies {name}", "policy")
    if policy["allow"] and not any(pattern_matches(pattern, name) for pattern in policy["allow"]):
        raise Refused(f"is not allowed here: {name} is not among the packages that the administrator allows", "policy")


def read_requirement(text, policy):
    """The requirement, written anew. Raises Refused."""
    if not isinstance(text, str):
        raise Refused("is not a string")
    refuse_by_look(text, policy)
    if re.fullmatch(r"[A-Za-z0-9._-]+ *@ *[0-9][A-Za-z0-9.]*", text.strip()):
        # A URL to packaging, or not, depending on its version.
        raise Refused("is not a requirement: a version is written 'name==1.2', not 'name@1.2'")
    try:
        requirement = Requirement(text)
        check_names(canonical(requirement.name), policy)
        return serialise(requirement, policy)
    except (InvalidRequirement, InvalidSpecifier, InvalidMarker, InvalidVersion) as e:
        raise Refused(explain_syntax(text, e)) from None
    except (RecursionError, MemoryError):
        raise Refused("is nested too deeply", "limit") from None
    except (ValueError, SyntaxError) as e:
        # Numbers of thousands of digits, for one. Old releases evaluate a marker's strings as Python.
        raise Refused(f"cannot be read: {printable(e, 100)}") from None
