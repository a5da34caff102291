"""Hostfiles that a launch line names: files beside the script, or what the script writes."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final

from simgpu.errors import Issue, ScenarioError
from simgpu.io.foreign.device_filters import hostfile
from simgpu.io.foreign.host_list import listed_hosts
from simgpu.io.foreign.launch_words import LaunchLine
from simgpu.io.foreign.ledger import Ledger
from simgpu.io.foreign.shell_files import plain_name, same_file
from simgpu.io.foreign.shell_known import check_files
from simgpu.io.foreign.shell_patterns import unknown
from simgpu.io.user_path import is_readable, user_path

DEFAULT_HOSTS: Final = "/job/hostfile"
"""What DeepSpeed's launcher reads where no option names a file: deepspeed/launcher/constants.py, DLTS_HOSTFILE."""
_OWN_NAME: Final = re.compile(r"\$\(hostname[^()|]*\)|`hostname[^`|]*`|\$\{?(?:HOSTNAME|MASTER_ADDR)\b\}?")


def has_default_hosts(line: LaunchLine) -> bool:
    """Return whether the script writes the hostfile that DeepSpeed takes by itself."""
    return DEFAULT_HOSTS in line.written or DEFAULT_HOSTS in line.changed


def hosts_named(line: LaunchLine, named: tuple[str, Any] | None, ledger: Ledger, folder: Path | None) -> dict[str, int]:
    r"""Return the GPUs of each host of the file that an option names.

    Parameters
    ----------
    line : LaunchLine
    named : (str, object) or None
        The option's key, and its value.
    ledger : Ledger
        With the line's options; the key is used where the file tells.
    folder : Path, optional
        Where the script lies.

    Returns
    -------
    dict
        Empty where there is no such file.

    Raises
    ------
    ScenarioError
        For a file that the script writes and that only a run would tell, and for a line that is no host.

    Examples
    --------
    >>> from simgpu.io.foreign.document import Document
    >>> from simgpu.io.foreign.launch_words import find_launch_line
    >>> script = "for n in 0 1; do echo node$n slots=8; done > hosts\ndeepspeed --hostfile hosts t.py"
    >>> line = find_launch_line(script, "run.sh")
    >>> ledger = Ledger(Document(source="run.sh", data={"launcher": dict(line.options)}))
    >>> hosts_named(line, ("launcher.hostfile", "hosts"), ledger, None)
    {'node0': 8, 'node1': 8}
    """
    if named is None:
        return {}
    name = plain_name(str(named[1]))
    check_files([name], {}, line.changed, source=ledger.source)
    written = same_file(name, line.written)
    if written is not None:
        ledger.get(named[0])
        text = _OWN_NAME.sub("this-host", line.written[written])
        odd = next((one for one in text.splitlines() if unknown(one)), "")
        if odd:
            problem = f"is written by the script, with {odd[:60]!r}, of which only a run tells what it is"
            fix = f"give {name} as it is in the job"
            raise ScenarioError([Issue(field=name, problem=problem, fix=fix, file=ledger.source)])
        return listed_hosts(text, name)
    if folder is None:
        return {}
    path = folder / user_path(name)
    if is_readable(path):
        ledger.get(named[0])
    return hostfile(path)
