"""What a page rests on: the scenario as it was written, and every assumption with its source."""

from __future__ import annotations

import html
from collections.abc import Sequence
from itertools import groupby

from simgpu.metrics.assumption import Assumption


def scenario(texts: Sequence[tuple[str, str]]) -> str:
    """Show scenario files as they were read, each with a button that copies it.

    Parameters
    ----------
    texts : sequence of (str, str)
        What each is called, and its YAML.

    Returns
    -------
    str, HTML

    Examples
    --------
    >>> "a: &lt;b&gt;" in scenario([("x.yaml", "a: <b>")])
    True
    """
    return "\n".join(
        f"<details class=source{' open' if number == 0 else ''}><summary>{html.escape(name)}</summary>"
        f'<button data-copy>Copy</button><pre class="yaml">{html.escape(text)}</pre></details>'
        for number, (name, text) in enumerate(texts)
    )


def assumptions(found: Sequence[tuple[str, Sequence[Assumption]]]) -> str:
    """List assumptions by topic; what all runs share is said once.

    Parameters
    ----------
    found : sequence of (str, sequence of Assumption)
        Of each run: its name, and what it rests on.

    Returns
    -------
    str, HTML

    Examples
    --------
    >>> one = Assumption(topic="GPU", what="rate", value="<1>", standing="assumed", source="a paper")
    >>> page = assumptions([("a", [one]), ("b", [one])])
    >>> page.count("&lt;1&gt;"), "all runs" in page
    (1, True)
    """
    runs: dict[Assumption, list[str]] = {}
    for name, rests in found:
        for one in dict.fromkeys(rests):
            runs.setdefault(one, []).append(name)
    if not runs:
        return ""
    topics = list(dict.fromkeys(one.topic for one in runs))
    order = sorted(runs, key=lambda one: topics.index(one.topic))
    several = len(found) > 1
    heads = ("about", "what", "value", "standing", "source", *(("runs",) if several else ()))
    rows = []
    for topic, group in groupby(order, key=lambda one: one.topic):
        for number, one in enumerate(group):
            who = "all runs" if len(runs[one]) == len(found) else ", ".join(runs[one])
            cells = (
                "" if number else topic,
                one.what,
                one.value,
                one.standing,
                one.source,
                *((who,) if several else ()),
            )
            rows.append("<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in cells) + "</tr>")
    head = "".join(f"<th>{name}</th>" for name in heads)
    body = "\n".join(rows)
    return f'<div class=scroll><table class="words"><thead><tr>{head}</tr></thead><tbody>\n{body}</tbody></table></div>'
