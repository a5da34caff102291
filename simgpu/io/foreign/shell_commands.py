"""Single commands of a shell script: assignments, functions, files read as scripts, and programs that it starts."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from simgpu.io.foreign.shell_assignments import ASSIGNMENT, assign
from simgpu.io.foreign.shell_builtins import HARMLESS, TESTS, Effect, built_in
from simgpu.io.foreign.shell_command import Command
from simgpu.io.foreign.shell_fed import fed_text, read_text_of
from simgpu.io.foreign.shell_inner import child, inner_text
from simgpu.io.foreign.shell_output import raw, redirected
from simgpu.io.foreign.shell_patterns import unknown
from simgpu.io.foreign.shell_state import LeftError, State
from simgpu.io.foreign.shell_words import Word

if TYPE_CHECKING:
    from simgpu.io.foreign.shell_reader import Reader

_DEEPEST: Final = 12  # functions, and commands in the texts of others
_ENVIRONMENTS: Final = (
    r"activate\w*", r"bashrc", r"bash_profile", r"profile", r"zshrc", r"conda\w*", r"micromamba", r"modules?", r"lmod",
    r"set_?env\w*\.sh", r"setvars\.sh", r"ssh-agent", r"brew", r"direnv",
)  # fmt: skip
"""Files and commands that set up programs and paths, not the job."""


def run_command(reader: Reader, words: Sequence[Word], state: State) -> bool | None:
    """Run one command, and return its status.

    Parameters
    ----------
    reader : Reader
        Gets the command, or those of the function, the file or the text that it runs.
    words : sequence of Word
    state : State
        Changed to what it leaves.

    Returns
    -------
    bool or None
        None where only a run would tell.

    Examples
    --------
    >>> from simgpu.io.foreign.shell import read_commands
    >>> [command.words for command in read_commands("f() { N=$1; }; f 4; N=2 run $N")]
    [('run', '4')]
    """
    redirects = [word for word in words if word.redirect]
    plain = [word for word in words if not word.redirect]
    with redirected(state, redirects, raw(plain or redirects)):
        return _run(reader, plain, redirects, state)


def _run(reader: Reader, words: Sequence[Word], redirects: Sequence[Word], state: State) -> bool | None:
    variables = state.variables
    own: dict[str, str] = {}
    saved = variables
    first, sure = 0, True
    for word in words:
        match = ASSIGNMENT.match(word.text)
        if match is None or word.pieces[0][1] or "=" not in "".join(t for t, q in word.pieces if q == ""):
            break
        first += 1
    if first and first < len(words):
        saved, variables = variables, variables.copied()  # of the command alone
    for word in words[:first]:
        name = assign(word, variables, own, reader.document)
        sure = sure and not unknown(own.get(name, ""))
    rest = words[first:]
    if not rest:
        return True if sure else None
    if rest[0].text in TESTS and rest[0].pieces[0][1] == "":
        return reader.test(rest, state)
    saved.seen = set()
    expanded = [part for word in rest for part in saved.words(word)]
    if not expanded:
        return True
    if expanded[0] in ("true", "false"):
        return expanded[0] == "true"
    if expanded[0] in state.functions:
        if first:
            state.variables = variables
        try:
            return _call(reader, expanded, state)
        finally:
            if first:
                for name in own:
                    before = saved.values.get(name)
                    if before is None:
                        state.variables.forget(name)
                    else:
                        state.variables.values[name] = before
    fed = [read_text_of(reader, word, state) for word in redirects]
    if expanded[0] == "read" and not any(word.redirect[:1] == "<" for word in redirects):
        lines = state.files.lines
        if lines == []:
            return False
        if {"-d", "-n", "-N", "-t", "-u"} & {*expanded}:
            state.files.lines = None
        elif lines:
            fed = [f"{lines.pop(0)}\n"]
    effect = built_in(rest, expanded, saved, fed, reader.assigned, own.get("IFS"))
    if effect is not None:
        return _effect(reader, effect, expanded, redirects, state)
    if expanded == ["exec"]:  # which only redirects what follows
        return True
    if not _add(reader, expanded, own, redirects, state):
        _write(reader, expanded, redirects, own, state)
    if expanded[0] == "exec":
        raise LeftError("exit")
    return True if expanded[0] in HARMLESS else None


def _effect(
    reader: Reader, effect: Effect, expanded: list[str], redirects: Sequence[Word], state: State
) -> bool | None:
    """Do what a command of the shell itself does beyond its variables."""
    if effect.left:
        raise LeftError(effect.left, failed=effect.failed)
    if {"-p", "-l"} & {*expanded[1:]} or expanded in (["set"], ["export"]):  # prints variables
        state.files.say(None)
    if effect.text is not None:
        return _nested(reader, effect.text, state)
    if effect.reads is not None:
        before = state.variables.export_all
        state.variables.export_all = before or effect.exports
        try:
            return _source(reader, effect.reads, effect.arguments, state)
        finally:
            state.variables.export_all = before
    if effect.opaque:
        _doubt(reader, effect.opaque, state)
    return effect.status


def _call(reader: Reader, expanded: list[str], state: State) -> bool | None:
    """Run a function with its arguments."""
    reader.called.add(expanded[0])
    if reader.depth >= _DEEPEST:
        state.files.say(None)
        return None
    before, local = state.variables.arguments, state.variables.local
    passed = [word for word in expanded[1:] if word not in ("$@", "$*")]
    own = before is None and len(passed) < len(expanded) - 1 and not passed
    state.variables.arguments = None if own else passed if before is None else expanded[1:]
    state.variables.local = {}
    reader.depth += 1
    kept = len(reader.left)
    status: bool | None = None
    try:
        status = reader.node(state.functions[expanded[0]], state)
    except LeftError as left:
        if left.how != "return":
            raise
        status = not left.failed
    finally:
        reader.gather(kept, state)
        reader.depth -= 1
        for name, values in (state.variables.local or {}).items():
            state.variables.aliases.pop(name, None)
            if values is None:
                state.variables.forget(name)
            else:
                state.variables.values[name] = values
        state.variables.local = local
        state.variables.arguments = before
    return status


def _source(reader: Reader, name: str, arguments: Sequence[str], state: State) -> bool | None:
    """Read a file as a script in place."""
    text = state.files.text(name)
    if text in reader.inside:  # one that reads itself, for ever
        return None
    if text is not None and reader.depth < _DEEPEST:
        reader.inside.append(text)
        reader.depth += 1
        before = state.variables.arguments
        if arguments:
            state.variables.arguments = list(arguments)
        try:
            return reader.body(reader.parsed(text), state)
        except LeftError as left:
            if left.how != "return":
                raise
            return None
        finally:
            reader.depth -= 1
            reader.inside.pop()
            state.variables.arguments = before
    _doubt(reader, name, state)
    state.files.say(None)
    return True


def _doubt(reader: Reader, name: str, state: State) -> None:
    """Let nothing that is set hold any more: a file that is not there may set it anew."""
    if any(re.search(rf"(?:^|[/._-])(?:{word})\b", name) for word in _ENVIRONMENTS):
        reader.ignored += [] if name in reader.ignored else [name]
        return
    variables = state.variables
    variables.elsewhere = f"{name} may set, which is not beside the script"
    variables.doubts = dict.fromkeys(variables.values, variables.elsewhere)


def _write(
    reader: Reader, expanded: list[str], redirects: Sequence[Word], own: Mapping[str, str], state: State
) -> None:
    """Keep account of what a command prints, and of the files that it writes."""
    texts = [read_text_of(reader, word, state) for word in redirects if word.redirect[:1] == "<"]
    fed = [text for text in texts if text is not None]
    if texts and not fed:
        state.files.piped = None
    state.files.follow(expanded, fed)
    state.files.say(state.files.printed(expanded, fed, {**_exported(state), **own}))


def _exported(state: State) -> dict[str, str]:
    """Return the environment of a command."""
    values = state.variables.values
    return {name: values[name][0] for name in state.variables.exported if values.get(name)}


def _nested(reader: Reader, text: str, state: State) -> bool | None:
    if reader.depth >= _DEEPEST:
        state.files.say(None)
        return None
    if unknown(text[:2]) and re.fullmatch(r"\$\(.*\)|`.*`|\$\{?\w+\}?", text.strip(), re.DOTALL):
        _doubt(reader, text, state)
        state.files.say(None)
        return None
    reader.depth += 1
    try:
        return reader.body(reader.parsed(text), state)
    finally:
        reader.depth -= 1


def _add(reader: Reader, expanded: list[str], own: Mapping[str, str], redirects: Sequence[Word], state: State) -> bool:
    """Keep a command, or those in its text; return whether it has any."""
    variables = state.variables
    seen = set(variables.seen)
    environment = {**_exported(state), **own}
    extra = [word for name in variables.left_out if name in seen for word in variables.left_out[name]]
    inner = inner_text(expanded, state.files, fed_text(reader, redirects, state))
    if inner is None:
        command = Command(
            words=tuple(expanded),
            environment=environment,
            variables={name: " ".join(values) for name, values in variables.values.items()},
            positional=reader.without_arguments > 0,
            written=dict(state.files.written),
            changed=state.files.unknown(),
            left_out=tuple(extra),
            doubts={name: text for name in sorted(seen) if (text := variables.doubt(name))},
            ignored=tuple(reader.ignored),
            loop=", ".join(reader.loops),
        )
        reader.commands.append(command)
        return False
    if reader.depth >= _DEEPEST or reader.inside.count(inner.text) > 1:  # one that starts itself
        return False
    kept = len(reader.commands)
    reader.depth += 1
    reader.inside.append(inner.text)
    found = child(state, inner, own)
    try:
        reader.body(reader.parsed(inner.text), found)
    except LeftError:
        pass
    finally:
        reader.depth -= 1
        reader.inside.pop()
    reader.commands[kept:] = [
        replace(
            command,
            words=(*inner.outer, *command.words),
            environment={**(environment if inner.inherits else {}), **command.environment},
            left_out=(*extra, *command.left_out),
            doubts={**{name: text for name in seen if (text := variables.doubt(name))}, **command.doubts},
        )
        for command in reader.commands[kept:]
    ]
    state.files = found.files
    return True
