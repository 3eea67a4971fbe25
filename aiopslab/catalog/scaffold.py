"""New content folders: ``aiopslab new problem|fault|app NAME`` writes something small that already works."""

from __future__ import annotations

import re
from pathlib import Path
from string import Template

from aiopslab.catalog.bundles import KINDS
from aiopslab.catalog.catalog import Catalog
from aiopslab.catalog.manifests import App, Fault
from aiopslab.errors import UsageError

SCAFFOLDED = ("problem", "fault", "app")
_NAME = re.compile(r"[a-z]([a-z0-9-]{0,48}[a-z0-9])?")

# path below the content folder (or, with a leading slash, below the bundle) -> text; $-names are filled in
_FAULT = {
    "fault.toml": """\
title = "$title"
description = "What goes wrong, in one or two sentences that never reach the agent."
class = "fault.py:$class_name"
system_level = "Application"
fault_type = "Misconfiguration"
touches = ["apps/deployments/{{namespace}}/{{service}}"]

[synonyms]
system_level = []
fault_type = ["Configuration Error"]

[params.service]
help = "Deployment to break"

# When the cause counts as gone, judged on the objects at the end of the run.
[[cause_gone]]
resource = "apps/deployments"
name = "{{service}}"
path = "spec.paused"
op = "absent"
""",
    "fault.py": '''\
"""$title."""

from __future__ import annotations

from aiopslab.api import Saved, Site


class $class_name:
    """Pauses a Deployment's roll-outs. Replace with the real change."""

    async def save(self, site: Site) -> Saved:
        """What is there now of what will change; on disk before ``inject`` runs."""
        deployment = await site.kube.get("apps/deployments", site.namespace, site.params["service"])
        return {"paused": bool(deployment["spec"].get("paused"))}

    async def inject(self, site: Site, saved: Saved) -> None:
        """Break it."""
        await self._set(site, True)

    async def recover(self, site: Site, saved: Saved) -> None:
        """Undo what is left; called also after a failed ``inject``, and maybe twice."""
        if await site.kube.find("apps/deployments", site.namespace, site.params["service"]):
            await self._set(site, saved["paused"])

    async def _set(self, site: Site, paused: bool) -> None:
        patch = {"spec": {"paused": paused or None}}
        await site.kube.patch("apps/deployments", site.namespace, site.params["service"], patch)
''',
}
_PROBLEM = {
    "problem.toml": """\
title = "$title"
description = "What people will see, in one or two sentences that never reach the agent."
app = "$app"
workload = "$workload"
fault = "$fault"
tasks = ["detection", "localization", "analysis", "mitigation", "incident"]

[[variants]]
params = { $params }

# The fault has bitten when this holds (PromQL with one value).
[symptom]
expr = \'\'\'
$symptom
\'\'\'
op = "$symptom_op"
threshold = $threshold
budget_s = 300
""",
    "solution.sh": """\
#!/bin/sh
# The recorded repair. NAMESPACE and the fault's parameters in upper case are in the environment.
# Paragraphs are run one by one, as separate commands.
set -eu

kubectl get pods -n "$$NAMESPACE"
""",
}
_APP = {
    "app.toml": """\
title = "$title"
description = "What it does, in one or two sentences that the agent will read."
chart = "$name"
release = "$name"
namespace = "$name"
services = ["web"]

[entry]
service = "web"
port = 80

[[slos]]
name = "success ratio"
expr = \'\'\'
sum(rate(traces_span_metrics_calls_total{service_name="web",span_kind="SPAN_KIND_SERVER",status_code!="STATUS_CODE_ERROR"}[1m]))
/
sum(rate(traces_span_metrics_calls_total{service_name="web",span_kind="SPAN_KIND_SERVER"}[1m]))
\'\'\'
op = ">="
threshold = 0.98
unit = "ratio"
""",
    "README.md": """\
# $title

What it is, its services, and what breaks without each. `sim.toml` beside this file says how its containers behave
on the embedded cluster; without it the app runs on real clusters only.
""",
    "/helm/$name/Chart.yaml": """\
apiVersion: v2
name: $name
description: $title
type: application
version: 0.1.0
""",
    "/helm/$name/values.yaml": """\
image: nginx:1.27
replicas: 1
""",
    "/helm/$name/templates/web.yaml": """\
apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
  namespace: {{ .Release.Namespace }}
  labels:
    app: web
spec:
  replicas: {{ .Values.replicas }}
  selector:
    matchLabels:
      app: web
  template:
    metadata:
      labels:
        app: web
    spec:
      containers:
        - name: server
          image: {{ .Values.image }}
          ports:
            - containerPort: 80
---
apiVersion: v1
kind: Service
metadata:
  name: web
  namespace: {{ .Release.Namespace }}
  labels:
    app: web
spec:
  selector:
    app: web
  ports:
    - name: http
      port: 80
      targetPort: 80
""",
}


def scaffold(kind: str, name: str, root: Path) -> Path:
    """Write a new content folder into the bundle ``root`` and return it.

    It loads without errors as written. Raises UsageError for a wrong kind or name, or when it exists.
    """
    if kind not in SCAFFOLDED:
        raise UsageError(f"cannot make a new {kind!r}; choose {', '.join(SCAFFOLDED)}")
    if not _NAME.fullmatch(name):
        raise UsageError(f"{name!r} is not a usable name: up to 50 lower-case letters, digits and hyphens")
    folder = root / KINDS[kind][0] / name
    if folder.exists():
        raise UsageError(f"{folder} exists already; choose another name")
    values = {
        "name": name,
        "title": name.replace("-", " ").capitalize(),
        "class_name": "".join(part.capitalize() for part in name.split("-")),
    }
    files = {"fault": _FAULT, "problem": _PROBLEM, "app": _APP}[kind]
    if kind == "problem":
        values |= _problem_values(root)
    for path, text in files.items():
        target = Template(path).substitute(values)
        file = root / target.lstrip("/") if target.startswith("/") else folder / target
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(Template(text).substitute(values), encoding="utf-8")
    return folder


def _problem_values(root: Path) -> dict[str, str]:
    """An app, workload, fault, its parameters and a symptom that fit together, from what there is."""
    catalog = Catalog.load([root] if any((root / folder).is_dir() for folder, _, _ in KINDS.values()) else [])
    apps = [app for _, app in sorted(catalog.apps.items()) if app.services and app.slos]
    faults = [fault for _, fault in sorted(catalog.faults.items()) if fault.cause_gone]
    if not (apps and faults and catalog.workloads):
        raise UsageError("a problem needs an app with services and slos, a fault and a workload; make those first")
    app, fault = apps[0], faults[0]
    slo = app.slos[0]
    return {
        "app": app.id,
        "workload": min(catalog.workloads),
        "fault": fault.id,
        "params": ", ".join(f"{key} = {value}" for key, value in _params(fault, app)),
        # The first objective, broken.
        "symptom": slo.expr.strip(),
        "symptom_op": {"<": ">=", "<=": ">", ">": "<=", ">=": "<"}[slo.op],
        "threshold": repr(slo.threshold),
    }


def _params(fault: Fault, app: App) -> list[tuple[str, str]]:
    placeholder = {"string": f'"{app.services[0]}"', "integer": "1", "number": "1.0", "boolean": "true"}
    return [(key, placeholder[param.type]) for key, param in fault.params.items() if param.default is None]
