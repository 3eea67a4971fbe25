"""Lua scripts of wrk2, run as they are: one Lua state per thread, and one for ``setup`` and ``done``.

The scripts come out of the simulated cluster, where an agent may have put them. So a state has no way to the
machine (``prelude.lua``), a limit on memory and one on instructions; no Python object can be looked into from Lua.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import Any
from urllib.parse import urlsplit

from lupa import lua51

from aiopslab.sim.world.wrk2.options import Options

MEMORY_BYTES_MAX = 64 << 20


class ScriptError(Exception):
    """The script ended with an error; the text is Lua's message."""

    @property
    def panic(self) -> str:
        """What wrk2 prints before it ends."""
        return f"PANIC: unprotected error in call to Lua API ({self})"


@dataclass(frozen=True, slots=True)
class Surface:
    """What a script sees of its container: files by path, the time in Unix seconds, where output goes."""

    files: Mapping[str, str]
    now: Callable[[], float]
    write: Callable[[str], None]
    seed: int


class State:
    """One Lua state with the script loaded. ``problem`` is what loading it failed with, as wrk2 prints it."""

    def __init__(self, options: Options, surface: Surface) -> None:
        self._lua = lua51.LuaRuntime(
            register_eval=False,
            register_builtins=False,
            unpack_returned_tuples=True,
            max_memory=MEMORY_BYTES_MAX,
            attribute_filter=_closed,
        )
        shared = self._lua.globals()
        shared["host_seed"] = float(surface.seed % (1 << 31))
        shared["host_now"] = surface.now
        shared["host_write"] = surface.write
        shared["host_file"] = surface.files.get
        shared["wrk"] = self._table(_request_of(options))
        source = files(__package__).joinpath("prelude.lua").read_text()
        self._driver: Any = self._lua.execute(source)
        self.problem = ""
        if options.script:
            self._load(options.script, surface.files.get(options.script))

    def begin(self, arguments: tuple[str, ...]) -> None:
        """Call ``init`` with the arguments after ``--``."""
        self._call("begin", self._table(dict(enumerate(arguments))))

    def setup(self, thread: State) -> None:
        """Call ``setup`` with a handle on another state."""

        def get(_: Any, name: str) -> Any:
            return self._moved(thread._call("get", name))

        def put(_: Any, name: str, value: Any) -> None:
            thread._call("set", name, thread._moved(value))

        handle = {"addr": "", "get": get, "set": put, "stop": lambda _: None}
        self._call("setup", self._table(handle))

    def has(self, name: str) -> bool:
        """Whether the script defines a function of this name."""
        return bool(self._call("has", name))

    def take(self, count: int) -> tuple[list[int], list[str]]:
        """The next requests: a number each, and the raw texts of the numbers that are new, in order."""
        found, fresh = self._call("take", count)
        return list(found.values()), list(fresh.values())

    def answers(self, statuses: list[int], size: int) -> None:
        """Call ``response`` for answers of ``size`` bytes."""
        self._call("answers", self._table(dict(enumerate(statuses, 1))), size)

    def finish(self, summary: dict[str, Any], latency: dict[str, Any], rates: dict[str, Any]) -> None:
        """Call ``done``. Latencies in µs, rates per second; both {values: ascending list, mean, stdev}."""
        self._call("finish", self._table(summary), self._table(latency), self._table(rates))

    def _load(self, name: str, text: str | None) -> None:
        if text is None:
            self.problem = f"{name}: cannot open {name}"
            return
        try:
            self._call("load", text, name)
        except ScriptError as error:
            self.problem = f"{name}: {error}"

    def _call(self, name: str, *arguments: Any) -> Any:
        try:
            return self._driver[name](*arguments)
        except MemoryError:
            raise ScriptError("not enough memory") from None
        except lua51.LuaError as error:
            raise ScriptError(str(error).split("\nstack traceback")[0]) from None

    def _table(self, values: Mapping[Any, Any]) -> Any:
        table = self._lua.table()
        for key, value in values.items():
            if isinstance(value, Mapping):
                value = self._table(value)
            elif isinstance(value, list):
                value = self._table(dict(enumerate(value, 1)))
            table[key] = value
        return table

    def _moved(self, value: Any) -> Any:
        """A copy of a value of another state; functions cannot move."""
        if lua51.lua_type(value) == "table":
            return self._table({self._moved(k): self._moved(v) for k, v in value.items()})
        if value is None or isinstance(value, bool | int | float | str):
            return value
        raise ScriptError(f"cannot transfer '{lua51.lua_type(value)}' to thread")


def _closed(_object: object, name: object, _setting: bool) -> object:
    raise AttributeError(f"no attribute {name}")


def _request_of(options: Options) -> dict[str, Any]:
    """The fields of the table ``wrk`` that the command line fills in."""
    parts = urlsplit(options.url)
    return {
        "scheme": parts.scheme,
        "host": parts.hostname or "",
        "port": str(parts.port) if parts.port else None,
        "path": (parts.path or "/") + (f"?{parts.query}" if parts.query else ""),
        "headers": dict(options.headers),
        "thread": {"addr": ""},
    }
