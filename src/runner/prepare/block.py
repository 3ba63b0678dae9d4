# SPDX-License-Identifier: MIT
"""The block of metadata in a script: where it is, what is wrong with it, and the TOML in it."""

import re
import tomllib

BLOCK_BYTES_MAX = 64 << 10

OPENING = re.compile(r"# /// ([a-zA-Z0-9-]+)")
# What its author most likely meant for one.
NEARLY_OPENING = re.compile(r"#[ \t]*/{2,4}[ \t]*script[ \t]*", re.IGNORECASE)
NEARLY_CLOSING = re.compile(r"[ \t]*#[ \t]*/{2,4}[ \t]*")


class Block:
    """Lines first..last (from 0, without the fences) of the script."""

    def __init__(self, lines, first, last):
        self.first = first
        self.lines = [line[2:] if line.startswith("# ") else line[1:] for line in lines[first:last + 1]]

    def place(self, text):
        """Line and column, from 1, of a value in the script: where its text first stands between quotes."""
        for i, line in enumerate(self.lines):
            for quote in "\"'":
                at = line.find(quote + text + quote)
                if at >= 0:
                    return self.first + i + 1, at + 4
        return 0, 0

    def place_of_key(self, key):
        for i, line in enumerate(self.lines):
            if re.match(rf"[ \t]*[\"']?{re.escape(key)}[\"']?[ \t]*=", line):
                return self.first + i + 1, line.index(key) + 3
        return self.first, 1


def is_comment(line):
    return line == "#" or line.startswith("# ")


def find_end(lines, start):
    """The closing fence of a block that opens in lines[start]: the last one of the comment, as the standard says.

    Returns its index or None, and the index behind the comment."""
    end = start + 1
    closing = None
    while end < len(lines) and is_comment(lines[end]):
        if lines[end] == "# ///":
            closing = end
        end += 1
    return closing, end


def report_unclosed(lines, start, end, findings):
    for i in range(start + 1, min(end + 1, len(lines))):
        if NEARLY_CLOSING.fullmatch(lines[i]) and lines[i] != "# ///":
            findings.error("block", f"The block that opens in line {start + 1} is not closed: line {i + 1} must be "
                           "exactly '# ///', without blanks before or after it.", i + 1, 1)
            return
    reason = ""
    if end < len(lines) and lines[end].strip():
        reason = f" Line {end + 1} ends it, for it is not a comment that starts with '# '."
    findings.error("block", f"The block that opens in line {start + 1} is not closed: a line '# ///' is missing.{reason}",
                   start + 1, 1)


def find_block(script, findings):
    """The script's one block of metadata, or None."""
    # As Python divides its source. A byte order mark is no part of the first line.
    lines = re.split(r"\r\n|\n|\r", script.removeprefix("\ufeff"))
    block = None
    unclosed = 0    # in lines before this one nothing more can be closed
    i = 0
    while i < len(lines):
        line = lines[i]
        opening = OPENING.fullmatch(line) if line.startswith("# ///") else None
        if opening is None:
            if line.startswith("#") and NEARLY_OPENING.fullmatch(line):
                report_nearly(line, i, findings)
            i += 1
            continue
        if opening[1] != "script" and opening[1].lower() == "script":
            report_nearly(line, i, findings)
        closing, end = find_end(lines, i) if i >= unclosed else (None, unclosed)
        is_script = opening[1] == "script"
        if closing is None:
            # Else a comment with many openings would be read to its end for each of them.
            unclosed = end
            if is_script:
                report_unclosed(lines, i, end, findings)
            i += 1
            continue
        if is_script and block is not None:
            findings.error("block", f"There is a second 'script' block in line {i + 1}; the first is in line "
                           f"{block.first}. Put everything into one.", i + 1, 1)
        elif is_script:
            block = Block(lines, i + 1, closing - 1)
        else:
            report_swallowed(lines, i, closing, findings)
        i = closing + 1
    return block


def report_swallowed(lines, opening, closing, findings):
    """By the standard it is content of the other block; who wrote it meant something else."""
    if "# /// script" in lines[opening + 1:closing]:
        at = lines.index("# /// script", opening + 1) + 1
        findings.warning("block", f"Line {at} opens no block, for it is inside the one that opens in line {opening + 1}. Blocks "
                         "are separated by a line that is not a comment.", at, 1)


def report_nearly(line, i, findings):
    if line.rstrip() == "# /// script":
        findings.error("block", f"Line {i + 1} opens no block, for blanks follow '# /// script'. Remove them.",
                       i + 1, len(line.rstrip()) + 1)
    else:
        findings.warning("block", f"Line {i + 1} looks like the start of a block but is not: it must be exactly "
                         "'# /// script'. It is taken for a comment.", i + 1, 1)


def read_toml(block, findings):
    """The block's content as a dict, or None."""
    text = "\n".join(block.lines)
    if len(text) > BLOCK_BYTES_MAX:
        findings.error("block", f"The block has {len(text)} characters; {BLOCK_BYTES_MAX} are allowed.", block.first, 1)
        return None
    for i, line in enumerate(block.lines):
        if line == "///" or OPENING.fullmatch("# " + line):
            findings.error("block", f"Line {block.first + i + 1} is a fence inside the block that opens in line "
                           f"{block.first}. Blocks are separated by a line that is not a comment.", block.first + i + 1, 1)
            return None
    try:
        return tomllib.loads(text + "\n")
    except tomllib.TOMLDecodeError as e:
        message = str(e)
        at = re.fullmatch(r"(.*) \(at line (\d+), column (\d+)\)", message, re.DOTALL)
        if at:
            line, column = int(at[2]), int(at[3])
        else:
            message = re.sub(r" \(at end of document\)$", "", message) + " at the end of the block"
            line, column = len(block.lines), 0
        # The newline behind the last line is ours.
        line = min(line, max(len(block.lines), 1))
        findings.error("toml", f"The block is not valid TOML: {at[1] if at else message}.", block.first + line,
                       column + 2 if column else 0)
    except (RecursionError, MemoryError):
        findings.error("toml", "The block's values are nested too deeply.", block.first, 1)
    except ValueError as e:
        findings.error("toml", f"The block has a value that cannot be read: {e}.", block.first, 1)
    return None
