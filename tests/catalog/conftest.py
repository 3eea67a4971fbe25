"""A small bundle written to disk, for tests that change it."""

from __future__ import annotations

from pathlib import Path

import pytest

FILES = {
    "apps/toy/app.toml": """\
title = "Toy"
chart = "toy"
release = "toy"
namespace = "toy-ns"
services = ["web", "db"]
[entry]
service = "web"
[[slos]]
name = "up"
expr = "up"
op = ">="
threshold = 1
""",
    "helm/toy/Chart.yaml": "apiVersion: v2\nname: toy\nversion: 0.1.0\n",
    "faults/unplug/fault.toml": """\
title = "Unplugged"
class = "fault.py:Unplug"
system_level = "Hardware"
fault_type = "Power"
[synonyms]
fault_type = ["No Power"]
[params.service]
help = "what to unplug"
[params.seconds]
type = "integer"
default = 5
minimum = 1
[[cause_gone]]
resource = "services"
name = "{{service}}"
path = "spec.seconds"
op = "not_equals"
value = "{{seconds}}"
""",
    "faults/unplug/fault.py": "from . import helper\n\nclass Unplug:\n    name = helper.NAME\n",
    "faults/unplug/helper.py": "NAME = 'plug'\n",
    "workloads/drip/workload.toml": """\
title = "Drip"
kind = "constant-rate"
manifests = ["job.yaml"]
[params.rate]
type = "integer"
default = 3
""",
    "workloads/drip/job.yaml": "kind: Job\n",
    "problems/dark/problem.toml": """\
title = "Dark"
app = "toy"
workload = "drip"
fault = "unplug"
tasks = ["detection", "mitigation"]
[[variants]]
params = { service = "web" }
[[variants]]
params = { service = "db", seconds = 9 }
components = ["db", "db-2"]
blast_radius = ["db", "web"]
[symptom]
expr = 'absent(up{service="{{service}}"})'
op = ">"
threshold = 0
[aliases]
"old_dark-det-1" = "detection-1"
""",
    "problems/dark/solution.sh": "#!/bin/sh\nset -eu\n\n# a remark\nplug --in $SERVICE\n\ncheck \\\n  all\n",
}


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    """The root of a bundle with one of everything."""
    root = tmp_path / "acme"
    for name, text in FILES.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root
