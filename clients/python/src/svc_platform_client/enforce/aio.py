"""The Enforcer for asyncio: its blocking steps run in threads."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

from . import Enforcer
from .errors import EnforcementError

_P = ParamSpec("_P")
_R = TypeVar("_R")


def _in_thread(
    work: Callable[Concatenate[Enforcer, _P], _R],
) -> Callable[Concatenate[AsyncEnforcer, _P], Coroutine[Any, Any, _R]]:
    """
    The method, awaited. If the task is cancelled, the work stops at its next piece, and the cancellation goes on after
    it has left nothing behind; work that was at its end is complete.
    """

    @wraps(work)
    async def awaited(self: AsyncEnforcer, /, *args: _P.args, **options: _P.kwargs) -> _R:
        stop = threading.Event()
        told: Any = options.get("on_progress")

        def watch(done: int, total: int | None) -> None:
            if stop.is_set():
                raise EnforcementError("io_failed", "the operation was cancelled")
            if told is not None:
                told(done, total)

        if work.__name__ != "flush":
            options["on_progress"] = watch
        running = asyncio.ensure_future(asyncio.to_thread(work, self.enforcer, *args, **options))
        try:
            return await asyncio.shield(running)
        except asyncio.CancelledError:
            stop.set()
            while not running.done():
                try:
                    await asyncio.wait([running])
                except asyncio.CancelledError:
                    continue
            if not running.cancelled():
                running.exception()
            raise

    return awaited


class AsyncEnforcer:
    """
    An Enforcer whose operations are awaited, and may run beside each other. Files, keys, handlers of obligations and
    `on_progress` are used in threads.
    """

    def __init__(self, enforcer: Enforcer) -> None:
        self.enforcer = enforcer

    flush = _in_thread(Enforcer.flush)
    protect = _in_thread(Enforcer.protect)
    open = _in_thread(Enforcer.open)
    open_range = _in_thread(Enforcer.open_range)
    rewrap = _in_thread(Enforcer.rewrap)
