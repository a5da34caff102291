"""Names close to a name that does not exist."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def near_names(name: str, known: Iterable[str], *, most: int = 2) -> list[str]:
    """Return known names that someone may have meant, best first.

    Parameters
    ----------
    name : str
    known : iterable of str
    most : int
        At most so many.

    Returns
    -------
    list of str

    Examples
    --------
    >>> near_names("llama2-7b", ["llama-2-7b", "llama-2-70b", "gpt2"])
    ['llama-2-7b', 'llama-2-70b']
    """
    plain = {_plain(entry): entry for entry in sorted(known, reverse=True)}
    found = difflib.get_close_matches(_plain(name), plain, n=most, cutoff=0.6)
    likeness = [difflib.SequenceMatcher(None, entry, _plain(name)).ratio() for entry in found]
    # A much better first match needs no second guess beside it.
    return [plain[entry] for entry, like in zip(found, likeness, strict=True) if like > likeness[0] - 0.1]


def did_you_mean(name: str, known: Iterable[str]) -> str | None:
    """Return ``did you mean ...?`` for a name that does not exist, or None when nothing is near.

    Parameters
    ----------
    name : str
    known : iterable of str

    Returns
    -------
    str or None

    Examples
    --------
    >>> did_you_mean("micro_batchsize", ["micro_batch_size", "precision"])
    'did you mean micro_batch_size?'
    """
    found = near_names(name, known)
    return f"did you mean {' or '.join(found)}?" if found else None


def _plain(name: str) -> str:
    return "".join(character for character in name.lower() if character.isalnum())
