"""Turns exported spans into a table of calls between services, in the agent's shell."""

from __future__ import annotations

# Reads the CSV of get_traces. A call that arrives is a span whose parent belongs to another service; the time
# between is what the caller's span lasts longer than the callee's. A caller's failed span without an arrival was
# not answered: its target is the service whose name its operation contains.
SCRIPT = """python3 - '{path}' <<'EOF'
import csv, sys, collections
spans = {{(r["trace_id"], r["span_id"]): r for r in csv.DictReader(open(sys.argv[1]))}}
known = {{r["service_name"] for r in spans.values()}} | set("{services}".split())
names = sorted(known, key=lambda name: (-len(name), name))
edges = collections.defaultdict(lambda: [0, 0, 0, 0.0])
loads = collections.defaultdict(lambda: [0, 0, 0.0])
inner = collections.Counter()
answered = set()
for key, r in spans.items():
    above = (r["trace_id"], r["parent_span"])
    parent = spans.get(above)
    if parent is None:
        continue
    inner[above] += float(r["duration"])
    if parent["service_name"] != r["service_name"]:
        edge = edges[parent["service_name"], r["service_name"]]
        edge[0] += 1
        edge[1] += r["has_error"] == "True" or parent["has_error"] == "True"
        edge[3] += max(0.0, float(parent["duration"]) - float(r["duration"])) / 1000
        answered.add(above)
parents = {{(r["trace_id"], r["parent_span"]) for r in spans.values()}}
for key, r in spans.items():
    parent = spans.get((r["trace_id"], r["parent_span"]))
    if parent is None or parent["service_name"] != r["service_name"]:
        load = loads[r["service_name"]]
        load[0] += 1
        load[1] += r["has_error"] == "True"
        load[2] += max(0.0, float(r["duration"]) - inner[key]) / 1000
    if r["has_error"] == "True" and key not in answered and key not in parents:
        called = r["operation_name"].lower()
        target = next((n for n in names if n in called and n != r["service_name"]), None)
        if target:
            edges[r["service_name"], target][0] += 1
            edges[r["service_name"], target][1] += 1
            edges[r["service_name"], target][2] += 1
for (caller, callee), (calls, failed, lost, ms) in sorted(edges.items()):
    print("edge", caller, callee, calls, failed, lost, round(ms / max(1, calls - lost), 2), sep="|")
for name, (count, failed, ms) in sorted(loads.items()):
    print("load", name, count, failed, round(ms / count, 2), sep="|")
EOF"""
