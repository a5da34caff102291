"""What programs print that only work on their words and on texts that are known: ``seq 4``, ``wc -l``, ``envsubst``."""

from __future__ import annotations

import re
import string
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from simgpu.io.foreign.shell_arithmetic import whole_number
from simgpu.io.foreign.shell_patterns import unknown
from simgpu.io.foreign.shell_start import SLURM_HOSTS

SILENT: Final = (
    "cd", "mkdir", "touch", "chmod", "sleep", "rm", "cp", "mv", "ln", "install", ":", "true", "false", "[", "[[",
    "test", "chown", "rmdir",
)  # fmt: skip
"""Commands that print nothing."""
_MOST_NUMBERS: Final = 10_000
_LONGEST: Final = 100_000  # characters
_FORMULA: Final = re.compile(r"[\d\s+*()/%-]+")
_PYTHON: Final = re.compile(
    r"\s*print\((?!.*\*\*)(?:int\(([\d\s+*()]+/\s*(?:\d+|\([\d\s+*]+\))\s*)\)|((?:[\d\s+*()]|//)+|[\d\s+*()-]+))\)\s*"
)
"""Whole numbers, of which all are positive where there is a quotient: Python rounds down, the shell towards zero."""
_OWN_NODES: Final = re.compile(r"hostnames?(?: \$\{?SLURM_(?:JOB_)?NODELIST\}?)?")
_FIELDS: Final = re.compile(r"\s*\{\s*print\s+NF;?\s*\}\s*")
_VARIABLE: Final = re.compile(r"\$(?:([A-Za-z_]\w*)|\{([A-Za-z_]\w*)\})")
_CLASSES: Final = {
    **dict.fromkeys(("[:upper:]", "A-Z"), string.ascii_uppercase),
    **dict.fromkeys(("[:lower:]", "a-z"), string.ascii_lowercase),
}
_PLAIN: Final = re.compile(r"[a-z0-9]*")
_APPEND: Final = re.compile(r"(?:-e )?s/\$/([^/\\&$`]*)/g?")
_BEFORE_FILE: Final = {"wc": 0, "head": 0, "tail": 0, "sort": 0, "uniq": 0, "grep": 1, "sed": 1}
"""How many words that are no options stand before the file that a program reads."""
_CODES: Final = {r"\n": "\n", r"\t": "\t"}


def printed(
    words: Sequence[str], fed: str | None, text_of: Callable[[str], str | None], exported: Mapping[str, str]
) -> str | None:
    r"""Return what a command prints; None where only a run would tell.

    Parameters
    ----------
    words : sequence of str
    fed : str or None
        Its input, where that is known.
    text_of : callable
        Gives the text of a file by its name.
    exported : mapping of str to str
        Variables that it finds in its environment.

    Returns
    -------
    str or None

    Examples
    --------
    >>> printed(["expr", "2", "*", "4"], None, lambda name: None, {}), printed(["nproc"], None, lambda name: None, {})
    ('8\n', None)
    >>> printed(["tr", ",", r"\n"], "0,1\n", lambda name: None, {})
    '0\n1\n'
    """
    program, rest = words[0].rsplit("/", 1)[-1] if words else "", list(words[1:])
    if not words or program in SILENT:
        return ""
    if program == "echo":
        flags = [word for word in rest[:1] if re.fullmatch(r"-[neE]+", word)]
        text = " ".join(rest[len(flags) :]) + ("" if flags and "n" in flags[0] else "\n")
        return text.replace("\\n", "\n").replace("\\t", "\t") if flags and "e" in flags[0] else text
    if program == "printf" and rest:
        return formatted(rest[0], rest[1:])
    if program == "scontrol" and rest[:1] == ["show"] and _OWN_NODES.fullmatch(" ".join(rest[1:])):
        return text_of(SLURM_HOSTS)
    if any(map(unknown, rest)) and program not in ("awk", "envsubst", "sed"):
        return None
    if program == "expr":
        return _line(whole_number(" ".join(rest))) if _FORMULA.fullmatch(" ".join(rest)) else None
    if program == "seq" and 1 <= len(rest) <= 3:
        return _numbers(rest)
    if program == "basename" and len(rest) in (1, 2):
        name = rest[0].rstrip("/").rsplit("/", 1)[-1]
        return f"{name.removesuffix(rest[1]) if len(rest) == 2 and name != rest[1] else name}\n"
    if program == "dirname" and len(rest) == 1:
        folder, slash, _ = rest[0].rstrip("/").rpartition("/")
        return f"{folder or (slash or '.')}\n"
    if program.startswith("python") and rest[:1] == ["-c"] and len(rest) == 2:
        formula = _PYTHON.fullmatch(rest[1])
        return _line(whole_number(formula[1] or formula[2].replace("//", "/"))) if formula else None
    if program == "cat":
        texts = [fed if word == "-" else text_of(word) for word in rest] or [fed]
        return None if None in texts else "".join(text for text in texts if text)
    return None if fed is None and not rest else _filtered(program, rest, fed, text_of, exported)


def _filtered(
    program: str, rest: list[str], fed: str | None, text_of: Callable[[str], str | None], exported: Mapping[str, str]
) -> str | None:
    """Return what a program makes of its input."""
    plain = [word for word in rest if not word.startswith("-")]
    if len(plain) > _BEFORE_FILE.get(program, len(plain)) and not plain[-1].lstrip("+").isdecimal():
        fed = text_of(rest[-1]) if program != "wc" and rest[-1] == plain[-1] else None  # wc prints the name too
        rest = rest[:-1]
    if fed is None or (unknown(fed) and program != "envsubst"):
        return None
    lines = fed.splitlines(keepends=True)
    if program == "envsubst" and len(rest) <= 1:
        return _substituted(fed, exported, rest[0] if rest else fed)
    if program == "wc" and rest in (["-l"], ["-w"]):
        return f"{fed.count(chr(10)) if rest == ['-l'] else len(fed.split())}\n"
    if program == "tail" and (first := re.fullmatch(r"-n ?\+(\d{1,4})", " ".join(rest))):
        return "".join(lines[max(0, int(first[1]) - 1) :])
    if program in ("sort", "uniq", "grep", "sed"):
        return _of_lines(program, rest, [line.rstrip("\n") for line in lines])
    if program in ("head", "tail") and (count := re.fullmatch(r"-(?:n\s*)?(\d{1,4})", " ".join(rest))):
        return "".join(lines[: int(count[1])] if program == "head" else lines[len(lines) - int(count[1]) :])
    if program == "tr" and len(rest) == 2:
        return _translated(rest, fed)
    if program == "xargs" and rest in ([], ["echo"]):
        return None if re.search(r"['\"\\]", fed) else " ".join(fed.split()) + "\n"
    if program == "bc" and len(lines) == 1 and _FORMULA.fullmatch(fed) and rest in ([], ["-l"][: "/" not in fed]):
        return _line(whole_number(fed))
    if program == "awk" and len(rest) in (2, 3) and rest[0].startswith("-F") and _FIELDS.fullmatch(rest[-1]):
        separator = rest[0][2:] or rest[1]
        return None if len(separator) != 1 else "".join(f"{_fields(line, separator)}\n" for line in lines)
    cut = re.fullmatch(r"-d ?(.) -f ?(\d{1,3})|-f ?(\d{1,3}) -d ?(.)", " ".join(rest)) if program == "cut" else None
    if cut:
        separator, field = cut[1] or cut[4], int(cut[2] or cut[3])
        parts = [line.rstrip("\n").split(separator) for line in lines]
        return "".join(f"{part[0] if len(part) == 1 else (part[field - 1 :] or [''])[0]}\n" for part in parts)
    return None


def _of_lines(program: str, rest: Sequence[str], lines: Sequence[str]) -> str | None:
    """Return the lines that ``sort``, ``uniq``, ``grep -v WORD`` and ``sed 's/$/ WORDS/'`` make of some."""
    found: list[str] | None = None
    if program == "sort" and rest in ([], ["-u"]) and all(map(_PLAIN.fullmatch, lines)):  # whatever the locale
        found = sorted(lines) if not rest else sorted(set(lines))
    elif program == "uniq" and not rest:
        found = [line for before, line in zip([None, *lines], lines, strict=False) if line != before]
    elif program == "grep" and len(rest) == 2 and rest[0] == "-v" and re.fullmatch(r"[\w-]+", rest[1]):
        found = [line for line in lines if rest[1] not in line]
    elif program == "sed" and (added := _APPEND.fullmatch(" ".join(rest))):
        found = [f"{line}{added[1]}" for line in lines]
    return None if found is None else "".join(f"{line}\n" for line in found)


def formatted(form: str, words: Sequence[str]) -> str | None:
    r"""Return what ``printf`` prints; None for forms other than %s, %d and %%.

    Examples
    --------
    >>> formatted("TP=%d\\n", ["4"]), formatted("%s\\n", ["a", "b"]), formatted("%05.2f", ["1"])
    ('TP=4\n', 'a\nb\n', None)
    """
    left = list(words)
    found: list[str] = []
    parts = re.findall(r"([^%]+)|(%.?)", form.replace("\\n", "\n").replace("\\t", "\t"), re.DOTALL)
    takes = sum(sign in ("%s", "%d", "%i") for _, sign in parts)
    while True:
        for plain, sign in parts:
            if plain:
                found.append(plain)
            elif sign == "%%":
                found.append("%")
            elif sign in ("%s", "%d", "%i"):
                found.append(left.pop(0) if left else "" if sign == "%s" else "0")
            else:
                return None
        if not left or not takes or len(found) > _LONGEST:
            return "".join(found)


def _line(number: int | None) -> str | None:
    return None if number is None else f"{number}\n"


def _numbers(words: Sequence[str]) -> str | None:
    if not all(re.fullmatch(r"-?\d{1,9}", word) for word in words):
        return None
    numbers = [int(word) for word in words]
    first, step, last = (1, 1, *numbers) if len(numbers) == 1 else (numbers[0], *([1, *numbers[1:]][-2:]))
    found = range(first, last + (1 if step > 0 else -1), step) if step else range(0)
    return "".join(f"{number}\n" for number in found) if len(found) <= _MOST_NUMBERS else None


def _translated(words: Sequence[str], text: str) -> str | None:
    sets = [_CODES.get(word, _CLASSES.get(word, word)) for word in words]
    if words[0] == "-d":
        return None if len(sets[1]) != 1 else text.replace(sets[1], "")
    if len(sets[0]) != len(sets[1]) or any(sign in one for one in sets for sign in "[\\") or "-" in "".join(sets)[1:-1]:
        return None
    return text.translate(str.maketrans(sets[0], sets[1]))


def _fields(line: str, separator: str) -> int:
    plain = line.rstrip("\n")
    parts = plain.split() if separator == " " else plain.split(separator)
    return len(parts) if plain else 0


def _substituted(text: str, exported: Mapping[str, str], named: str) -> str:
    """Return what ``envsubst`` makes of a text; a variable that the script does not export stays, and is unknown."""
    names = {found[1] or found[2] for found in _VARIABLE.finditer(named)} & exported.keys()
    return _VARIABLE.sub(lambda found: exported[name] if (name := found[1] or found[2]) in names else found[0], text)
