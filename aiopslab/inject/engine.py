"""Runs faults: journal first, then the change; recovery from the journal alone."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from aiopslab.catalog.code import load_object
from aiopslab.catalog.manifests import Fault as FaultManifest
from aiopslab.catalog.templates import fill, resolve
from aiopslab.cluster.base import Cluster
from aiopslab.errors import InjectionError, ManifestError
from aiopslab.inject.journal import Journal, read_journal, write_journal
from aiopslab.inject.protocol import Fault, Site, timed, validated
from aiopslab.kube.client import Kube
from aiopslab.record import Injection

_VERBS = ("save", "inject", "recover")


class Injector:
    """Injects and recovers faults on one cluster."""

    def __init__(self, cluster: Cluster, kube: Kube) -> None:
        self._cluster, self._kube = cluster, kube

    async def inject(
        self, manifest: FaultManifest, params: dict[str, Any], journal: Path, namespace: str
    ) -> Injection:
        """Save what will change in the app's ``namespace`` to ``journal``, then break it.

        Raises InjectionError when either fails, ManifestError for wrong parameters or unusable code.
        After a failure in between, ``recover(journal)`` undoes whatever was done. ``symptom_after_s`` is left None.
        """
        where = str(manifest.folder / "fault.toml")
        params = resolve(manifest.params, params, where)
        await self._check_requirements(manifest)
        site = self._site(manifest.id, params, namespace)
        fault = _instance(manifest.folder, manifest.class_ref, manifest.id, manifest.inject_timeout_s)
        entry = Journal(
            fault=manifest.id,
            folder=str(manifest.folder),
            class_ref=manifest.class_ref,
            namespace=namespace,
            params=params,
            object_name=site.object_name,
            objects=fill(manifest.touches, {**params, **_places(site)}, where),
            saved=await fault.save(site),
            state="saved",
        )
        write_journal(journal, entry)
        await fault.inject(site, entry.saved)
        entry.state, entry.injected_at = "injected", await self._cluster.clock.now()
        write_journal(journal, entry)
        target = params.get(manifest.target)
        return Injection(
            fault=manifest.id,
            params=params,
            targets=[str(target)] if target else [],
            objects=entry.objects,
            injected_at=entry.injected_at,
            symptom_after_s=None,
        )

    async def recover(self, journal: Path) -> bool:
        """Undo what the journal says; False when nothing was left to do. Safe to call again."""
        entry = read_journal(journal)
        if entry is None or entry.state == "recovered":
            return False
        site = self._site(entry.fault, entry.params, entry.namespace, entry.object_name)
        fault = _instance(Path(entry.folder), entry.class_ref, entry.fault, 0.0)
        await fault.recover(site, entry.saved)
        entry.state = "recovered"
        write_journal(journal, entry)
        return True

    async def _check_requirements(self, manifest: FaultManifest) -> None:
        for api_version in manifest.requires:
            if not await self._kube.serves(api_version):
                raise InjectionError(
                    f"fault {manifest.id} needs {api_version}, which the cluster does not serve; "
                    "install it (see `aiopslab cluster doctor`)"
                )

    def _site(self, fault: str, params: dict[str, Any], namespace: str, object_name: str = "") -> Site:
        name = object_name or _neutral_name(self._cluster.seed, fault, params, namespace)
        return Site(self._kube, self._cluster.clock, namespace, params, name)


def _instance(folder: Path, class_ref: str, name: str, timeout_wall_s: float) -> Fault:
    kind = load_object(folder, class_ref)
    try:
        fault = kind()
    except Exception as error:
        raise ManifestError(f"{folder / class_ref}: cannot be created without arguments: {error}") from error
    missing = [verb for verb in _VERBS if not callable(getattr(fault, verb, None))]
    if missing:
        raise ManifestError(f"{folder / class_ref} is not a fault: it has no {', '.join(missing)}")
    return timed(validated(fault, name), name, timeout_wall_s)


def _neutral_name(seed: int, fault: str, params: dict[str, Any], namespace: str) -> str:
    text = repr((seed, fault, sorted(params.items()), namespace))
    return "x-" + hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()[:10]


def _places(site: Site) -> dict[str, str]:
    """What ``touches`` of a manifest may name besides the parameters."""
    return {
        "namespace": site.namespace,
        "chaos_namespace": site.chaos_namespace,
        "object_name": site.object_name,
    }
