"""A feature flag gets a variant that makes a service misbehave."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

from aiopslab.api import InjectionError, Saved, Site

RESTARTED_AT = "kubectl.kubernetes.io/restartedAt"


class FeatureFlag:
    """Edits the flag file in its ConfigMap, then rolls the flag service, which reads a copy made at its start."""

    async def save(self, site: Site) -> Saved:
        """The variant that holds now, and the whole file as it reads now and once it is broken."""
        text = await self._text(site)
        if text is None:
            raise InjectionError(
                f"ConfigMap {site.params['config_map']} has no file {site.params['file']}; name the flag file"
            )
        flag, variant = site.params["flag"], site.params["variant"]
        known = _flag(text, flag)
        if known is None:
            raise InjectionError(f"{site.params['file']} has no flag {flag!r}; it has {', '.join(_names(text))}")
        variants = known.get("variants") or {}
        if variant not in variants:
            raise InjectionError(f"flag {flag} has no variant {variant!r}; choose of {', '.join(variants)}")
        before = _variant(known)
        if before == variant:
            raise InjectionError(f"flag {flag} is {variant!r} already; choose another variant")
        return {"variant": before, "text": text, "broken": _changed(text, flag, variant)}

    async def inject(self, site: Site, saved: Saved) -> None:
        """Store the changed file and restart the flag service."""
        await self._write(site, saved["broken"])

    async def recover(self, site: Site, saved: Saved) -> None:
        """Give the flag its variant back where it still has the wrong one; other changes stay."""
        text = await self._text(site)
        if text == saved["broken"]:
            await self._write(site, saved["text"])
            return
        known = _flag(text, site.params["flag"]) if text is not None else None
        if text is not None and known is not None and _variant(known) == site.params["variant"]:
            await self._write(site, _changed(text, site.params["flag"], saved["variant"]))

    async def _text(self, site: Site) -> str | None:
        found = await site.kube.find("configmaps", site.namespace, site.params["config_map"])
        text = (found.get("data") or {}).get(site.params["file"]) if found else None
        return text if isinstance(text, str) else None

    async def _write(self, site: Site, text: str) -> None:
        patch = {"data": {site.params["file"]: text}}
        await site.kube.patch("configmaps", site.namespace, site.params["config_map"], patch)
        at = datetime.fromtimestamp(int(await site.clock.now()), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        template = {"metadata": {"annotations": {RESTARTED_AT: at}}}
        name = site.params["deployment"]
        if await site.kube.find("apps/deployments", site.namespace, name) is not None:
            await site.kube.patch("apps/deployments", site.namespace, name, {"spec": {"template": template}})


def _flags(text: str) -> dict[str, Any]:
    try:
        flags = json.loads(text).get("flags")
    except (ValueError, AttributeError):
        return {}
    return flags if isinstance(flags, dict) else {}


def _names(text: str) -> list[str]:
    return sorted(_flags(text)) or ["none that can be read"]


def _flag(text: str, name: str) -> dict[str, Any] | None:
    flag = _flags(text).get(name)
    return flag if isinstance(flag, dict) else None


def _rule(flag: dict[str, Any]) -> list[Any] | None:
    """The terms of a targeting rule ``if``: condition, result, ..."""
    terms = (flag.get("targeting") or {}).get("if")
    return terms if isinstance(terms, list) and len(terms) > 1 else None


def _variant(flag: dict[str, Any]) -> Any:
    rule = _rule(flag)
    return flag.get("defaultVariant") if rule is None else rule[1]


def _changed(text: str, name: str, variant: str) -> str:
    """The file with one flag's variant set."""
    data = json.loads(text)
    flag = data["flags"][name]
    rule = _rule(flag)
    if rule is None:
        flag["defaultVariant"] = variant
    else:
        rule[1] = variant
    return json.dumps(data, indent=2) + "\n"
