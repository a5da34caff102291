"""Words and statements of a shell script, before anything in them is expanded."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

JOINTS: Final = ("&&", "||")
"""What joins two commands of which the second may not run."""
MARKS: Final = (*JOINTS, "|", "&", "(", ")", ";;")
"""What stands between statements, and is one."""
KEYWORDS: Final = ("if", "then", "elif", "else", "while", "until", "do", "!", "{", "time")
"""Behind which another command starts."""
_LONGEST_FORMULA: Final = 400  # characters
_MARK: Final = re.compile(r"&&|\|\||\|&|;;&?|;&|.", re.DOTALL)
_REDIRECTION: Final = re.compile(r"(?:<<<|<<-?|&>>?|>>|[<>]&|>\||<>|[<>](?!\())[ \t]*")
_OLD_FORMULA: Final = re.compile(r"\$\[([^\]\n]*)\]")
_PATTERN: Final = re.compile(r"[@?*+!]\(")
_BETWEEN: Final = re.compile(r"[ \t\d]*")
_EMPTY: Final = re.compile(r"\([ \t]*\)")
_ANSI: Final = re.compile(r"\$'((?:[^'\\]|\\.)*)'", re.DOTALL)
_CODES: Final = re.compile(r"\\(.)", re.DOTALL)
_MEANS: Final = {"n": "\n", "t": "\t"}
_ESCAPED: Final = re.compile(r'((?:[^\\]|\\(?![$`"\\]))+)|\\([$`"\\])')

_PARENTHESES: Final = r"\((?:[^()]|\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\))*\)"
_VALUE_WORD: Final = re.compile(rf"(?:\${_PARENTHESES}|\$\{{[^{{}}]*\}}|`[^`]*`|\S)+")


def split_words(text: str) -> list[str]:
    """Split a variable's value at blanks; what a command would print stays one word, for nobody knows its words.

    Examples
    --------
    >>> split_words("--n $(python -c 'print(8)') --m `nproc --all`")
    ['--n', "$(python -c 'print(8)')", '--m', '`nproc --all`']
    """
    return _VALUE_WORD.findall(text)


@dataclass(frozen=True, slots=True)
class Word:
    """A word: its raw text, and pieces with the quote that each stood in; ``redirect`` is the sign before a file."""

    pieces: tuple[tuple[str, str], ...]
    array: tuple[Word, ...] | None = None
    redirect: str = ""

    @property
    def text(self) -> str:
        """The word without its quotes, nothing expanded."""
        return "".join(text for text, _ in self.pieces)

    @property
    def quoted_first(self) -> bool:
        """Whether it starts with a quote: then it is a word even when it is empty."""
        return bool(self.pieces) and self.pieces[0][1] != ""


def statements(text: str, unclosed: list[int] | None = None) -> list[list[Word]]:
    """Cut a script into words, and words into statements; what stands between statements is one of its own.

    Parameters
    ----------
    text : str
    unclosed : list of int, optional
        Gets the positions of quotes that are never closed.

    Returns
    -------
    list of list of Word

    Examples
    --------
    >>> [[word.redirect + word.text for word in words] for words in statements("A=1 run 'x y' > log; next && (last)")]
    [['A=1', 'run', 'x y', '>log'], ['next'], ['&&'], ['('], ['last'], [')']]
    """
    found: list[list[Word]] = []
    current: list[Word] = []
    descriptor, closed = "", -1
    arrays: list[tuple[list[Word], tuple[tuple[str, str], ...]]] = []
    position, size = 0, len(text)
    while position < size:
        character = text[position]
        if text.startswith(("\\\n", "\\\r\n"), position):
            position += 2 + (text[position + 1] == "\r")
        elif character in " \t\r" or (character == "\n" and (arrays or _tests(current))):
            position += 1
        elif character == "#":
            position = _line_end(text, position)
        elif character == ")" and arrays:
            outer, head = arrays.pop()
            current = [*outer, Word(pieces=head, array=tuple(current))]
            position += 1
        elif text.startswith(("<(", ">("), position) and not arrays:
            word, position = _word(text, position, unclosed)
            current.append(word)
        elif (redirection := _REDIRECTION.match(text, position)) and not _tests(current):
            behind = not current and closed >= 0 and _BETWEEN.fullmatch(text, closed, position)
            target, position = _word(text, redirection.end(), unclosed)
            word = Word(pieces=target.pieces, redirect=descriptor.strip("01") + redirection[0].strip())
            descriptor = ""
            if behind:  # ( ... ) > file
                found[-1].append(word)
                closed = position
            else:
                current.append(word)
        elif character in "\n;&|()<>" and not arrays:
            called = _EMPTY.match(text, position)
            formula = _formula(text, position) if character == "(" else None
            if called and current and (len(current) == 1 or current[0].text == "function"):  # f() {
                current[-1] = Word(pieces=(*current[-1].pieces, ("()", "")))
                position = called.end()
            elif formula is not None and all(word.text in (*KEYWORDS, "for") for word in current):
                current += [Word(pieces=(("((", ""),)), Word(pieces=((formula, '"'),))]
                position += len(formula) + 4
            else:
                sign = _MARK.match(text, position)[0]  # type: ignore[index]
                position += len(sign)
                if _tests(current):
                    current.append(Word(pieces=((sign, ""),)))
                    continue
                if current and sign not in "<>":
                    found.append(current)
                    current = []
                if sign in MARKS:
                    found.append([Word(pieces=((sign, ""),))])
                closed = position if sign == ")" else -1
        elif character in "\n;&|()<>":
            position += 1
        else:
            word, position = _word(text, position, unclosed, _kind(current) if _tests(current) else "")
            if word.text.isdigit() and text[position : position + 1] in ("<", ">") and word.pieces[0][1] == "":
                descriptor = word.text  # 2> of a redirection
                continue
            if text[position : position + 1] == "(" and word.text.endswith("="):
                arrays.append((current, word.pieces))
                current = []
                position += 1
            else:
                current.append(word)
    return [*found, current] if current else found


def _tests(words: list[Word]) -> bool:
    """Whether words end inside of ``[[ ... ]]``, in which signs join no commands."""
    at = next((at for at, word in enumerate(words) if word.text not in KEYWORDS), len(words))
    return at < len(words) and words[at].text == "[[" and words[-1].text != "]]"


def _kind(words: list[Word]) -> str:
    """Return what the next word of ``[[ ... ]]`` may hold: a pattern, or behind ``=~`` a regular expression."""
    return "=~" if words[-1].text == "=~" else "==" if words[-1].text in ("=", "==", "!=") else ""


def _formula(text: str, position: int) -> str | None:
    """Return what stands between ``((`` and ``))``."""
    if not text.startswith("((", position):
        return None
    formula = "$" + text[position : position + _LONGEST_FORMULA]
    end = closing(formula, 0)
    return formula[3 : end - 2] if formula[end - 2 : end] == "))" and end > 4 else None


def _word(text: str, position: int, unclosed: list[int] | None, kind: str = "") -> tuple[Word, int]:
    pieces: list[tuple[str, str]] = []
    closes = True  # whether what opens in double quotes is closed somewhere
    while position < len(text):
        character = text[position]
        if not pieces and text.startswith(("<(", ">("), position):
            end = closing(text, position)
            pieces.append((text[position:end], "'"))
            position = end
            continue
        if kind == "=~" and character in ";|<>)(&":
            pieces.append((character, ""))
            position += 1
            continue
        if kind and _PATTERN.match(text, position):
            end = closing(text, position)
            pieces.append((text[position:end], ""))
            position = end
            continue
        if character in " \t\r\n;|<>)&":
            break
        if text.startswith("\\\n", position):
            position += 2
        elif character == "\\":
            pieces.append((text[position + 1 : position + 2], "'"))
            position += 2
        elif text.startswith("$'", position) and (quoted := _ANSI.match(text, position)):
            pieces.append((_CODES.sub(lambda code: _MEANS.get(code[1], code[1]), quoted[1]), "'"))
            position = quoted.end()
        elif character == "'":
            end = text.find("'", position + 1)
            if end < 0:
                end = len(text)
                _keep(unclosed, position)
            pieces.append((text[position + 1 : end], "'"))
            position = end + 1
        elif character == '"':
            end = position + 1
            while end < len(text) and text[end] != '"':
                inner = closing(text, end) if closes and text.startswith(("$(", "${"), end) else 0
                closes = closes and inner < len(text)
                end = inner if 0 < inner < len(text) else end + (2 if text[end] == "\\" else 1)
            if end >= len(text):
                _keep(unclosed, position)
            pieces += _double_quoted(text[position + 1 : end])
            position = end + 1
        elif character == "`" or text.startswith(("$(", "${"), position) or _OLD_FORMULA.match(text, position):
            end = closing(text, position)
            pieces.append((text[position:end], ""))
            position = end
        elif character == "(":
            break
        else:
            match = re.compile(r"[^\s;|<>()\\'\"`$&]+|\$").match(text, position)
            chunk = match[0] if match else character
            if kind and len(chunk) > 1 and _PATTERN.match(text, position + len(chunk) - 1):
                chunk = chunk[:-1]
            if chunk == "$" and (name := re.compile(r"\$(?:\w+|[@*#?!])").match(text, position)):
                chunk = name[0]
            pieces.append((chunk, ""))
            position += len(chunk)
    return Word(pieces=tuple(pieces)), position


def _double_quoted(text: str) -> list[tuple[str, str]]:
    """Return the pieces of a text in double quotes: what stands behind a backslash means itself."""
    pieces: list[tuple[str, str]] = []
    for plain, escaped in _ESCAPED.findall(text.replace("\\\n", "")):
        pieces.append((escaped, "'") if escaped else (plain, '"'))
    return pieces or [("", '"')]


def _keep(unclosed: list[int] | None, position: int) -> None:
    if unclosed is not None:
        unclosed.append(position)


def closing(text: str, position: int) -> int:
    """Return where what opens at a position is closed, a backtick, ``$(``, ``${`` or ``$[``; the end where it never is.

    Examples
    --------
    >>> closing("$(a (b) c) d", 0), closing("${A", 0)
    (10, 3)
    """
    if text[position] == "`":
        end = text.find("`", position + 1)
        return len(text) if end < 0 else end + 1
    opening, closing = text[position + 1], {"(": ")", "{": "}", "[": "]"}[text[position + 1]]
    depth = 0
    for end in range(position + 1, len(text)):
        depth += (text[end] == opening) - (text[end] == closing)
        if depth == 0:
            return end + 1
    return len(text)


def _line_end(text: str, position: int) -> int:
    end = text.find("\n", position)
    return len(text) if end < 0 else end
