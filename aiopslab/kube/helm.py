"""Helm, as a program. Works with Helm 3 (3.14 on) and Helm 4."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import yaml

from aiopslab.errors import ClusterError
from aiopslab.kube.process import Completed, run
from aiopslab.kube.tools import Tools

HELM_TIMEOUT_WALL_S = 180.0


class Helm:
    """Releases on the cluster of ``kubeconfig``. Methods raise ClusterError with Helm's own reason."""

    def __init__(self, tools: Tools, kubeconfig: Path) -> None:
        self._helm = tools.helm
        self._kubeconfig = Path(kubeconfig)

    async def install(self, release: str, chart: Path, namespace: str, values: Mapping[str, Any]) -> None:
        """Install a chart folder. Returns when the objects are stored; does not wait for pods."""
        await self._with_values("install", [release, str(chart), "--namespace", namespace], values)

    async def upgrade(self, release: str, chart: Path, namespace: str, values: Mapping[str, Any]) -> None:
        """Upgrade a release to a chart folder and values (values not given return to the chart's)."""
        words = [release, str(chart), "--namespace", namespace, "--reset-values"]
        await self._with_values("upgrade", words, values)

    async def uninstall(self, release: str, namespace: str) -> bool:
        """Uninstall; False when there is no such release. Does not wait until the objects are gone."""
        if release not in {row["name"] for row in await self.releases(namespace)}:
            return False
        (await self._run(["uninstall", release, "--namespace", namespace])).checked()
        return True

    async def releases(self, namespace: str) -> list[dict[str, Any]]:
        """Releases of a namespace: ``{name, revision, status, chart, app_version, ...}``, sorted by name.

        Deployed, failed, pending and half-uninstalled ones; the flags add up.
        """
        words = ["list", "--namespace", namespace, "--output", "json"]
        done = (await self._run([*words, "--deployed", "--failed", "--pending", "--uninstalling"])).checked()
        rows: list[dict[str, Any]] = json.loads(done.stdout or "[]")
        return sorted(rows, key=lambda row: str(row["name"]))

    async def template(
        self, release: str, chart: Path, namespace: str, values: Mapping[str, Any]
    ) -> list[dict[str, Any]]:
        """The objects that ``install`` would create. Needs no cluster."""
        done = await self._with_values("template", [release, str(chart), "--namespace", namespace], values)
        return [obj for obj in yaml.safe_load_all(done.stdout) if obj]

    async def lint(self, chart: Path) -> None:
        """Check a chart folder; ClusterError with the first finding."""
        done = await self._run(["lint", "--strict", str(chart)])
        findings = [line for line in (done.stdout + done.stderr).splitlines() if line.startswith("[ERROR]")]
        if done.code != 0:
            raise ClusterError(f"{chart}: {findings[0] if findings else done.stderr.strip()}")

    async def _with_values(self, verb: str, words: list[str], values: Mapping[str, Any]) -> Completed:
        # Helm reads its values from standard input, so no file is left behind when it is interrupted.
        text = yaml.safe_dump(dict(values), sort_keys=True).encode()
        return (await self._run([verb, *words, "--values", "-"], stdin=text)).checked()

    async def _run(self, words: list[str], stdin: bytes = b"") -> Completed:
        async with _private_home(self._kubeconfig) as env:
            argv = [str(self._helm), *words]
            return await run(argv, env=env, stdin=stdin, timeout_wall_s=HELM_TIMEOUT_WALL_S)


@asynccontextmanager
async def _private_home(kubeconfig: Path) -> AsyncIterator[dict[str, str]]:
    """The environment with Helm's own folders in a scratch place: nothing of the user's Helm settings."""
    with TemporaryDirectory(prefix="helm-") as home:
        env = {key: value for key, value in os.environ.items() if not key.startswith(("HELM_", "KUBE"))}
        env |= {
            "KUBECONFIG": str(kubeconfig),
            "HELM_CACHE_HOME": home,
            "HELM_CONFIG_HOME": home,
            "HELM_DATA_HOME": home,
        }
        yield env
