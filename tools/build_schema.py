"""Build the data files of the API codecs.

    python tools/build_schema.py --protobuf FACTS.json

Reads the Kubernetes JSON schemas of the installed development package ``kubernetes-validate`` and a table of
protobuf field numbers, and writes

    aiopslab/sim/core/schema/schema.json.gz      definitions of the served API groups, OpenAPI v3 references
    aiopslab/sim/server/protobuf.json.gz  message -> [[number, JSON name, type, flags], ...]

Two facts about the Go types that OpenAPI does not tell are added to the schema from the protobuf table:
``x-go-value`` marks a property that is a struct by value (it exists, empty, even when nobody set it), and
``x-go-pointer`` marks an optional scalar (zero is then a value of its own).
"""

from __future__ import annotations

import argparse
import gzip
import json
import re
from importlib.resources import files
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
SCHEMA_OUT = ROOT / "aiopslab/sim/core/schema/schema.json.gz"
PROTOBUF_OUT = ROOT / "aiopslab/sim/server/protobuf.json.gz"
VERSION = "v1.37.0"
GROUPS = (
    "io.k8s.api.core.v1.",
    "io.k8s.api.apps.v1.",
    "io.k8s.api.batch.v1.",
    "io.k8s.api.autoscaling.v1.",
    "io.k8s.api.autoscaling.v2.",
    "io.k8s.api.policy.v1.",
    "io.k8s.api.networking.v1.",
    "io.k8s.api.rbac.v1.",
    "io.k8s.api.storage.v1.",
    "io.k8s.api.scheduling.v1.",
    "io.k8s.api.discovery.v1.",
    "io.k8s.api.coordination.v1.",
    "io.k8s.api.events.v1.",
    "io.k8s.api.admissionregistration.v1.",
    "io.k8s.api.authentication.v1.",
    "io.k8s.api.authorization.v1.",
    "io.k8s.api.certificates.v1.",
    "io.k8s.api.node.v1.",
    "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.",
    "io.k8s.kube-aggregator.pkg.apis.apiregistration.v1.",
    "io.k8s.apimachinery.",
)
NULL = "null"
# The table does not tell pointers in this one message; in Go all its non-string, non-flag members are.
JSON_SCHEMA = "apiextensions.v1.JSONSchemaProps"
JSON_SCHEMA_FLAGS = ("exclusiveMaximum", "exclusiveMinimum", "uniqueItems", "nullable",
                     "x-kubernetes-embedded-resource", "x-kubernetes-int-or-string")  # fmt: skip
# Defaults of list-map keys: the published schema has them, the package dropped them.
KEY_DEFAULTS = {
    ("io.k8s.api.core.v1.ContainerPort", "protocol"): "TCP",
    ("io.k8s.api.core.v1.ServicePort", "protocol"): "TCP",
}


def plain(node: Any, in_properties: bool = False) -> Any:
    """Undo what the package added: nullable types, pinned apiVersion and kind, ``$defs`` references."""
    if isinstance(node, list):
        return [plain(item) for item in node]
    if not isinstance(node, dict):
        return node
    out: dict[str, Any] = {}
    for key, value in node.items():
        if in_properties:
            out[key] = plain(value)
        elif key == "type" and isinstance(value, list):
            out[key] = next(name for name in value if name != NULL)
        elif key == "$ref" and isinstance(value, str):
            out[key] = value.replace("#/$defs/", "#/components/schemas/")
        elif key == "enum" and len(value) == 1:
            continue
        else:
            out[key] = plain(value, in_properties=key == "properties")
    return out


def protobuf_name(definition: str) -> str:
    """``io.k8s.api.core.v1.Pod`` -> ``core.v1.Pod``, as the protobuf table names messages."""
    return ".".join(definition.split(".")[-3:])


def mark_go_types(definitions: dict[str, Any], messages: dict[str, list[list[Any]]]) -> None:
    """Add ``x-go-value`` and ``x-go-pointer`` to the properties of every definition."""
    for name, definition in definitions.items():
        rows = flat_rows(protobuf_name(name), messages)
        for json_name, type_name, flags in rows:
            prop = definition.get("properties", {}).get(json_name)
            if prop is None or "r" in flags or type_name.startswith("map:"):
                continue
            if "p" in flags:
                if type_name in ("string", "int32", "int64", "bool", "double"):
                    prop["x-go-pointer"] = True
            elif "properties" in definitions.get(prop.get("$ref", "").rsplit("/", 1)[-1], {}):
                prop["x-go-value"] = True


def flat_rows(message: str, messages: dict[str, list[list[Any]]]) -> list[tuple[str, str, str]]:
    """Rows of a message with embedded structs replaced by their own rows."""
    rows: list[tuple[str, str, str]] = []
    for _number, json_name, type_name, *rest in messages.get(message, []):
        flags = rest[0] if rest else ""
        if "i" in flags:
            rows += flat_rows(type_name, messages)
        else:
            rows.append((json_name, type_name, flags))
    return rows


def json_names(definitions: dict[str, Any], messages: dict[str, list[list[Any]]]) -> None:
    """Spell the table's field names as JSON does (``xKubernetesMapType`` -> ``x-kubernetes-map-type``)."""

    def bare(name: str) -> str:
        return re.sub("[^a-z0-9]", "", name.lower())

    for name, definition in definitions.items():
        spelled = {bare(prop): prop for prop in definition.get("properties", {})}
        for row in messages.get(protobuf_name(name), []):
            row[1] = spelled.get(bare(row[1]), row[1])
    for row in messages[JSON_SCHEMA]:
        if len(row) == 3 and row[2] != "string" and row[1] not in JSON_SCHEMA_FLAGS:
            row.append("p")


def drop_dangling(definitions: dict[str, Any]) -> None:
    """Remove properties that refer to groups outside ``GROUPS`` (alpha features of served kinds)."""

    def dangles(prop: dict[str, Any]) -> bool:
        ref = prop.get("$ref") or prop.get("items", {}).get("$ref")
        return ref is not None and ref.rsplit("/", 1)[-1] not in definitions

    for definition in definitions.values():
        props = definition.get("properties", {})
        for name in [name for name, prop in props.items() if dangles(prop)]:
            del props[name]


def write(path: Path, value: Any) -> None:
    """Write deterministic gzip JSON (no time stamp inside)."""
    path.parent.mkdir(parents=True, exist_ok=True)
    body = json.dumps(value, separators=(",", ":"), sort_keys=True, ensure_ascii=False).encode()
    path.write_bytes(gzip.compress(body, compresslevel=9, mtime=0))
    print(f"{path.relative_to(ROOT)}: {len(body)} bytes, {path.stat().st_size} compressed")


def main() -> None:
    """Command line entry."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--protobuf", type=Path, required=True, help="JSON table of protobuf field numbers")
    args = parser.parse_args()
    package = files("kubernetes_validate").joinpath("kubernetes-json-schema")
    source = package.joinpath(f"{VERSION}-local", "_definitions.json")
    raw = json.loads(source.read_text())["$defs"]
    definitions = {name: plain(raw[name]) for name in sorted(raw) if name.startswith(GROUPS)}
    messages = json.loads(args.protobuf.read_text())["messages"]
    drop_dangling(definitions)
    for (name, prop), default in KEY_DEFAULTS.items():
        definitions[name]["properties"][prop]["default"] = default
    json_names(definitions, messages)
    mark_go_types(definitions, messages)
    write(SCHEMA_OUT, definitions)
    write(PROTOBUF_OUT, messages)


if __name__ == "__main__":
    main()
