"""The wrappers around faults: answers are checked, time is bounded, the journal comes first."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from aiopslab.catalog.manifests import Fault as FaultManifest
from aiopslab.catalog.manifests import Param
from aiopslab.errors import InjectionError, ManifestError
from aiopslab.inject.engine import Injector
from aiopslab.inject.protocol import NoFault, Site, timed, validated

CODE = """\
import json, pathlib, asyncio

class Good:
    async def save(self, site): return {"n": 1}
    async def inject(self, site, saved):
        entry = json.loads(pathlib.Path(site.params["journal"]).read_text())
        assert entry["saved"] == saved == {"n": 1} and entry["state"] == "saved"
    async def recover(self, site, saved): assert saved == {"n": 1}

class NotJson(Good):
    async def save(self, site): return {"n": {1, 2}}

class NotDict(Good):
    async def save(self, site): return [1]

class IntKeys(Good):
    async def save(self, site): return {1: 2}

class Slow(Good):
    async def inject(self, site, saved): await asyncio.sleep(60)

class NoRecover:
    async def save(self, site): return {}
    async def inject(self, site, saved): pass

class NeedsArguments(Good):
    def __init__(self, x): pass
"""


@pytest.fixture
def manifest(tmp_path: Path) -> FaultManifest:
    folder = tmp_path / "acme" / "faults" / "odd"
    folder.mkdir(parents=True)
    (folder / "fault.py").write_text(CODE)
    return FaultManifest(
        title="Odd",
        id="odd",
        folder=folder,
        class_ref="fault.py:Good",
        system_level="Application",
        fault_type="Code Defect",
        params={"journal": Param()},
        inject_timeout_s=0.2,
    )


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    return tmp_path / "record" / "journal.json"


async def test_the_journal_is_on_disk_before_the_change(
    manifest: FaultManifest, journal: Path, kube: Any, cluster: Any
) -> None:
    injector = Injector(cluster, kube)
    done = await injector.inject(manifest, {"journal": str(journal)}, journal, "shop")
    assert done.injected_at == await cluster.clock.now()
    assert await injector.recover(journal)
    assert [path.name for path in journal.parent.iterdir()] == ["journal.json"]


@pytest.mark.parametrize(
    ("name", "error", "says"),
    [
        ("NotJson", InjectionError, r"what save\(\) returns must be JSON data"),
        ("NotDict", InjectionError, r"save\(\) must return a dict, not list"),
        ("IntKeys", InjectionError, "must survive JSON"),
        ("Slow", InjectionError, r"fault odd: inject took longer than 0\.2 s"),
        ("NoRecover", ManifestError, "is not a fault: it has no recover"),
        ("NeedsArguments", ManifestError, "cannot be created without arguments"),
    ],
)
async def test_odd_faults_are_named(
    name: str,
    error: type[Exception],
    says: str,
    manifest: FaultManifest,
    journal: Path,
    injector: Injector,
) -> None:
    manifest.class_ref = f"fault.py:{name}"
    with pytest.raises(error, match=says):
        await injector.inject(manifest, {"journal": str(journal)}, journal, "shop")


async def test_a_broken_journal_is_named(kube: Any, cluster: Any, tmp_path: Path) -> None:
    (tmp_path / "journal.json").write_text("{")
    with pytest.raises(InjectionError, match=r"journal\.json is not a journal"):
        await Injector(cluster, kube).recover(tmp_path / "journal.json")


async def test_cancellation_passes_through(kube: Any, cluster: Any) -> None:
    class Hangs(NoFault):
        async def inject(self, site: Site, saved: Any) -> None:
            await asyncio.Event().wait()

    fault = timed(validated(Hangs(), "hangs"), "hangs", 60)
    site = Site(kube, cluster.clock, "shop", {}, "x")
    task = asyncio.create_task(fault.inject(site, await fault.save(site)))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_no_fault_changes_nothing(kube: Any, cluster: Any) -> None:
    fault = timed(validated(NoFault(), "none"), "none", 1)
    site = Site(kube, cluster.clock, "shop", {}, "x")
    saved = await fault.save(site)
    await fault.inject(site, saved)
    await fault.recover(site, saved)
    assert kube.writes == []
