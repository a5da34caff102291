"""Python's cyclic garbage collector, paused while very many objects are made that all live on."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def paused_collector() -> Iterator[None]:
    """Pause the collector: it would walk over all that was made again and again, and find nothing to free.

    Examples
    --------
    >>> with paused_collector():
    ...     gc.isenabled()
    False
    >>> gc.isenabled()
    True
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            if gc.get_freeze_count() == 0:  # else somebody else's objects would thaw
                gc.freeze()
                gc.unfreeze()  # all is old now: the next collection of young objects need not walk over it
            gc.enable()
