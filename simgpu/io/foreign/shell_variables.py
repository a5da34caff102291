"""Variables of a shell script, and words expanded with them, as bash does it."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Final

from simgpu.io.foreign.shell_arithmetic import whole_number
from simgpu.io.foreign.shell_braces import braced
from simgpu.io.foreign.shell_idle import stands_in_paths, tells_where
from simgpu.io.foreign.shell_parameters import parameter
from simgpu.io.foreign.shell_patterns import changed, unknown
from simgpu.io.foreign.shell_words import Word, closing, split_words

_NAME: Final = r"[A-Za-z_]\w*"
_PLAIN: Final = re.compile(rf"\$({_NAME}|\d|[@*#])")
_ARRAY: Final = re.compile(
    rf"\$\{{({_NAME})\[[@*]\](?::?-|:\s*(\d+)(?::\s*(\d+))?)?\}}|\$[@*]|\$\{{[@*](?::\s*(\d+)(?::\s*(\d+))?)?\}}"
)
_EACH: Final = re.compile(rf"\$\{{(!?)({_NAME})\[([@*])\](.*)\}}", re.DOTALL)
_SLICE: Final = re.compile(r":(?=\s|\d)\s*(-?\d+)(?::\s*(\d+))?")
_STEPS: Final = re.compile(rf"(?:\+\+|--)\s*({_NAME})|({_NAME})\s*(?:\+\+|--|(?:[-+*/%&|^]|<<|>>)?=(?!=))")
_MOST_WORDS, _MOST_CHARACTERS = 10_000, 1_000_000
"""Of a variable: one that doubles itself line by line would fill the memory. A larger one stays as it is written."""
_DEEPEST: Final = 8  # defaults in one another


@dataclass(slots=True)
class Variables:
    """What a script has set.

    Parameters
    ----------
    values : mapping of str to list of str
        One element each, arrays several.
    arrays : set of str
    maps : mapping of str to mapping
        Arrays with words as indices.
    exported : mapping
        Names, in order.
    doubts : mapping of str to str
        What may have set a variable to something else, by its name.
    elsewhere : str
        What may have set every other variable; empty where nothing may.
    left_out : mapping of str to list of str
        Words that a branch adds to a variable, which may not run.
    arguments : list of str, optional
        ``$1`` and so on; None where they are those of the script.
    export_all : bool
        Whether all that is set is exported, after ``set -a``.
    aliases : mapping of str to str
        Variables by other names, of ``declare -n``.
    local : mapping, optional
        What variables of a function held before it; None outside of functions.
    given : set of str
        Variables whose value depends on the script's arguments, as ``${1:-full}`` does.
    seen : set of str
        Variables that were looked at since it was emptied.
    prints : callable, optional
        Gives what the commands in a text print, without the last line ends; None where only a run would tell.

    Examples
    --------
    >>> variables = Variables(values={"A": ["llama-7b"]})
    >>> [variables.substituted(text) for text in ("$A", "${B:-2}", "${A%-*}", "${A/7b/13b}", "${#A}", "$(ls)")]
    ['llama-7b', '2', 'llama', 'llama-13b', '8', '$(ls)']
    """

    values: dict[str, list[str]] = field(default_factory=dict)
    arrays: set[str] = field(default_factory=set)
    maps: dict[str, dict[str, str]] = field(default_factory=dict)
    integers: set[str] = field(default_factory=set)
    exported: dict[str, None] = field(default_factory=dict)
    doubts: dict[str, str] = field(default_factory=dict)
    elsewhere: str = ""
    left_out: dict[str, list[str]] = field(default_factory=dict)
    arguments: list[str] | None = None
    export_all: bool = False
    aliases: dict[str, str] = field(default_factory=dict)
    local: dict[str, list[str] | None] | None = None
    given: set[str] = field(default_factory=set)
    seen: set[str] = field(default_factory=set)
    prints: Callable[[str, Variables], str | None] | None = None

    def copied(self) -> Variables:
        """Return a copy that changes by itself."""
        return replace(
            self, values=dict(self.values), arrays=set(self.arrays), integers=set(self.integers),
            maps={name: dict(found) for name, found in self.maps.items()}, exported=dict(self.exported),
            doubts=dict(self.doubts), aliases=dict(self.aliases), given=set(self.given),
            left_out={name: list(words) for name, words in self.left_out.items()},
            arguments=None if self.arguments is None else list(self.arguments),
            local=None if self.local is None else dict(self.local),
        )  # fmt: skip

    def scalar(self, name: str) -> str | None:
        """Return what ``$NAME`` gives; None where nothing in the script sets it."""
        name = self.aliases.get(name, name)
        self.seen.add(name)
        if name.isdigit() and name != "0" and self.arguments is not None:
            at = int(name) - 1
            return self.arguments[at] if at < len(self.arguments) else ""
        if name in ("@", "*", "#") and self.arguments is not None:
            between = self.separator() if name == "*" else " "
            return str(len(self.arguments)) if name == "#" else between.join(self.arguments)
        found = self.values.get(name)
        return None if found is None else next(iter(found), "")

    def set(self, name: str, values: list[str], *, array: bool = False) -> None:
        """Give a variable a value, with the doubts about the variables that have been looked at for it."""
        if len(values) > _MOST_WORDS or sum(map(len, values)) > _MOST_CHARACTERS:
            values = [f"${name}"]
        reasons = {one: found for one in sorted(self.seen) if (found := self.doubt(one))}
        own = {one for one in reasons if one not in self.values and stands_in_paths(one, values)}
        reason = next((found for one, found in reasons.items() if one not in own), "")
        extra = [word for one in sorted(self.seen) for word in self.left_out.get(one, [])]
        (self.given.add if self.depend_on_arguments() else self.given.discard)(name)
        self.values[name] = values
        self.maps.pop(name, None)
        (self.arrays.add if array else self.arrays.discard)(name)
        self.doubts.pop(name, None)
        self.left_out.pop(name, None)
        if self.export_all:
            self.exported.setdefault(name)
        if reason:
            self.doubts[name] = reason
        if extra:
            self.left_out[name] = extra

    def depend_on_arguments(self) -> bool:
        """Return whether what has been looked at depends on the script's arguments."""
        own = {name for name in self.seen if (name.isdigit() and name != "0") or name in ("@", "*", "#")}
        return self.arguments is None and bool(own | self.given & self.seen)

    def forget(self, name: str) -> None:
        """Leave a variable, or an element of an array, as ``unset`` leaves it."""
        if element := re.fullmatch(rf"({_NAME})\[(\w+)\]", name):
            pairs, values = self.maps.get(element[1]), list(self.values.get(element[1], []))
            if pairs is not None:
                self.maps[element[1]] = {key: value for key, value in pairs.items() if key != element[2]}
            elif element[2].isdecimal() and int(element[2]) < len(values):
                del values[int(element[2])]
                self.values[element[1]] = values
            return
        for held in (self.values, self.maps, self.exported, self.left_out, self.doubts):
            held.pop(name, None)
        self.arrays.discard(name)
        self.doubts[name] = ""

    def keep(self, name: str) -> None:
        """Let a variable be one of the function that runs."""
        if self.local is not None:
            self.local.setdefault(name, self.values.get(name))

    def open(self, name: str) -> None:
        """Leave a variable with a value that nobody knows."""
        array = name in self.arrays
        self.values[name] = [f"${{{name}[@]}}" if array else f"${name}"]
        self.maps.pop(name, None)

    def doubt(self, name: str) -> str:
        """Return what may have set a variable; empty where nothing may."""
        if tells_where(name):
            return ""
        if name in self.doubts:
            return self.doubts[name]
        given = name.isdigit() or name in ("@", "*", "#")
        return "" if given or name in self.values else self.elsewhere

    def words(self, word: Word) -> list[str]:
        """Return the words that one becomes: unquoted values are split at blanks, arrays at their elements."""
        return [part for one in braced(word) for part in self._words(one)]

    def _words(self, word: Word) -> list[str]:
        whole = _ARRAY.fullmatch(word.text)
        if whole and len(word.pieces) == 1 and word.pieces[0][1] != "'":
            parts = self.elements(whole[1] or "@")
            if parts is not None and (whole[2] or whole[4]):
                start, count = int(whole[2] or whole[4]), whole[3] or whole[5]
                start -= whole[1] is None  # of arguments the first is 1
                parts = parts[max(0, start) :][: int(count) if count else None]
            if parts is not None:
                if word.quoted_first and "*" in word.text:
                    return [self.separator().join(parts)]
                return parts if word.quoted_first else [piece for part in parts for piece in self.split(part)]
        each = _EACH.fullmatch(word.text) if len(word.pieces) == 1 and not whole and word.pieces[0][1] != "'" else None
        changes = None if each is None else self._each(*each.groups())
        if changes is not None:
            texts = [self.separator().join(changes)] if each and each[3] == "*" and word.quoted_first else changes
            return texts if word.quoted_first else [piece for part in texts for piece in self.split(part)]
        result: list[str] = []
        glued = False
        for text, quote in word.pieces:
            plain = text if quote == "'" else self.substituted(text)
            parts = self.split(plain) if quote == "" and plain != text else [plain]
            if not parts or (quote == "" and plain == ""):
                continue
            if glued and result and not (plain[:1].isspace() and plain != text and quote == ""):
                result[-1] += parts[0]
                parts = parts[1:]
            result += parts
            glued = not (plain[-1:].isspace() and plain != text and quote == "")
        return [part for part in result if part or word.quoted_first]

    def _each(self, sign: str, name: str, _: str, rest: str) -> list[str] | None:
        """Return the keys of an array, or its elements with a change to each; None where they are not known."""
        name = self.aliases.get(name, name)
        elements = self.elements(name)
        part = _SLICE.fullmatch(rest)
        if elements is not None and part and not sign:
            start, count = int(part[1]), int(part[2]) if part[2] else None
            return elements[start if start >= 0 else max(0, len(elements) + start) :][:count]
        if elements is None or (sign and rest) or (not sign and rest[:1] not in ("%", "#", "/", "^", ",")):
            return None
        if sign:
            return list(self.maps[name]) if name in self.maps else [str(at) for at in range(len(elements))]
        found = [changed(element, self.substituted(rest)) for element in elements]
        known = [text for text in found if text is not None]
        return known if len(known) == len(found) else None

    def separator(self) -> str:
        """Return what stands between the elements of "$*"."""
        return next(iter(self.values.get("IFS", [])), " ")[:1]

    def split(self, text: str) -> list[str]:
        """Return the words of an unquoted value: at blanks, or at what IFS says."""
        separators = next(iter(self.values.get("IFS", [])), None)
        if separators is None or not separators.strip() or unknown(text + separators):
            return split_words(text)
        return [part for part in re.split(f"[{re.escape(separators)}]", text) if part]

    def elements(self, name: str) -> list[str] | None:
        """Return the elements of an array, or the arguments for ``@``."""
        name = self.aliases.get(name, name)
        self.seen.add(name)
        if name == "@":
            return self.arguments
        if name in self.maps:
            return list(self.maps[name].values())
        return None if name not in self.values else list(self.values[name])

    def joined(self, pieces: tuple[tuple[str, str], ...]) -> str:
        """Return the pieces of a word as one text."""
        return "".join(text if quote == "'" else self.substituted(text) for text, quote in pieces)

    def number(self, formula: str, depth: int = 0) -> int | None:
        """Return what a formula of whole numbers gives; None where that is not known."""
        known = self.substituted(formula, depth + 1)
        if "${" in known or "$(" in known:
            return None
        named = re.sub(rf"(?<![\w$#\[])({_NAME})(?![\w(])", r"$\1", known)
        return whole_number(self.substituted(named, depth + 1))

    def substituted(self, text: str, depth: int = 0) -> str:
        """Return a text with its variables in place; what is not known stays as it is written."""
        if depth > _DEEPEST or not unknown(text):
            return text
        found: list[str] = []
        position = 0
        while position < len(text):
            if text[position] == "`":
                end = closing(text, position)
                value = self._output(text[position + 1 : end - 1])
                found.append(text[position:end] if value is None else value)
            elif text.startswith("$((", position) and text[closing(text, position) - 2 :][:2] == "))":
                end = closing(text, position)
                number = self.number(text[position + 3 : end - 2], depth)
                for name in _STEPS.findall(text[position:end]) if number is None else ():
                    self.open(name[0] or name[1])  # changed on the way
                found.append(text[position:end] if number is None else str(number))
            elif text.startswith("$[", position) and text.find("]", position) > 0:
                end = closing(text, position)
                number = self.number(text[position + 2 : end - 1], depth)
                found.append(text[position:end] if number is None else str(number))
            elif text.startswith("$(", position):
                end = closing(text, position)
                value = self._output(text[position + 2 : end - 1]) if text[end - 1] == ")" else None
                found.append(text[position:end] if value is None else value)
            elif text.startswith("${", position):
                end = closing(text, position)
                inner = text[position + 2 : end - 1] if text[end - 1] == "}" else ""
                value = parameter(self, inner, depth)
                found.append(text[position:end] if value is None else value)
            elif match := _PLAIN.match(text, position):
                end = match.end()
                value = self.scalar(match[1])
                plain = f"${{{match[1]}}}" if text[end : end + 1] == "$" else match[0]
                found.append(plain if value is None else value)
            else:
                end = position + 1
                found.append(text[position])
            position = end
        return "".join(found)

    def _output(self, text: str) -> str | None:
        """Return what commands print; None where only a run would tell."""
        return None if self.prints is None else self.prints(text, self)
