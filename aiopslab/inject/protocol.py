"""What a fault is: three verbs, a do-nothing instance, and the wrappers in which safety lives.

The engine always runs ``timed(validated(fault))``, so faults themselves stay a dozen lines.
"""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from typing import Any, Protocol

from aiopslab.cluster.base import Clock
from aiopslab.errors import InjectionError
from aiopslab.kube.client import Kube

Saved = dict[str, Any]
CHAOS_NAMESPACE = "chaos-mesh"
# Without a last word from the cluster, recovery is tried this long per attempt (wall time).
RECOVER_TIMEOUT_WALL_S = 120.0


@dataclass(frozen=True, slots=True)
class Site:
    """Where a fault acts. ``params`` are complete and checked.

    ``object_name`` is a neutral name for an object that the fault adds; it tells nothing about the fault.
    """

    kube: Kube
    clock: Clock
    namespace: str
    params: dict[str, Any]
    object_name: str
    chaos_namespace: str = CHAOS_NAMESPACE


class Fault(Protocol):
    """Something that breaks an application. A new instance serves one injection.

    ``save`` only reads and returns what will be changed, as JSON data; it is on disk before ``inject`` runs.
    ``recover`` gets the same data, maybe in another process, and must be safe to call twice, after a failed
    ``inject``, and after the agent has repaired or removed what was broken.
    """

    async def save(self, site: Site) -> Saved:
        """What is there now of what will change. Raises InjectionError when the fault cannot act here."""

    async def inject(self, site: Site, saved: Saved) -> None:
        """Break it. Returns when the change is stored; its effect may take longer."""

    async def recover(self, site: Site, saved: Saved) -> None:
        """Undo whatever is left of the change, and nothing else."""


class NoFault:
    """Nothing is wrong: the normal case, not a special one."""

    async def save(self, site: Site) -> Saved:
        """Nothing will change."""
        return {}

    async def inject(self, site: Site, saved: Saved) -> None:
        """Change nothing."""

    async def recover(self, site: Site, saved: Saved) -> None:
        """Nothing is left."""


class _Validated:
    """A fault whose answers are checked."""

    def __init__(self, fault: Fault, name: str) -> None:
        self._fault, self._name = fault, name

    async def save(self, site: Site) -> Saved:
        saved = await self._fault.save(site)
        if not isinstance(saved, dict):
            raise InjectionError(f"fault {self._name}: save() must return a dict, not {type(saved).__name__}")
        try:
            again = json.loads(json.dumps(saved))
        except (TypeError, ValueError) as error:
            raise InjectionError(f"fault {self._name}: what save() returns must be JSON data: {error}") from error
        if again != saved:
            raise InjectionError(f"fault {self._name}: what save() returns must survive JSON (keys are texts)")
        return saved

    async def inject(self, site: Site, saved: Saved) -> None:
        await self._fault.inject(site, saved)

    async def recover(self, site: Site, saved: Saved) -> None:
        await self._fault.recover(site, saved)


class _Timed:
    """A fault whose verbs end in bounded wall time, and whose errors are InjectionErrors that name it."""

    def __init__(self, fault: Fault, name: str, timeout_wall_s: float) -> None:
        self._fault, self._name, self._timeout_wall_s = fault, name, timeout_wall_s

    async def save(self, site: Site) -> Saved:
        return await self._bounded("save", self._fault.save(site), self._timeout_wall_s)

    async def inject(self, site: Site, saved: Saved) -> None:
        await self._bounded("inject", self._fault.inject(site, saved), self._timeout_wall_s)

    async def recover(self, site: Site, saved: Saved) -> None:
        await self._bounded("recover", self._fault.recover(site, saved), RECOVER_TIMEOUT_WALL_S)

    async def _bounded(self, verb: str, call: Any, timeout_wall_s: float) -> Any:
        try:
            async with asyncio.timeout(timeout_wall_s):
                return await call
        except TimeoutError:
            message = f"fault {self._name}: {verb} took longer than {timeout_wall_s:g} s"
            raise InjectionError(message) from None
        except InjectionError:
            raise
        except Exception as error:
            raise InjectionError(f"fault {self._name}: {verb} failed: {error or type(error).__name__}") from error


def validated(fault: Fault, name: str) -> Fault:
    """``fault`` with the answers of ``save`` checked."""
    return _Validated(fault, name)


def timed(fault: Fault, name: str, timeout_wall_s: float) -> Fault:
    """``fault`` with bounded verbs; every failure becomes an InjectionError naming ``name`` and the verb."""
    return _Timed(fault, name, timeout_wall_s)
