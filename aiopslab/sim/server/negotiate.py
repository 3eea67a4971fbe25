"""Content negotiation: which representation an Accept header asks for, and writing it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import orjson
import yaml

from aiopslab.sim.core.apierrors import status_error

Obj = dict[str, Any]

JSON, YAML, PROTOBUF = "application/json", "application/yaml", "application/vnd.kubernetes.protobuf"
View = Literal["", "Table", "PartialObjectMetadata", "PartialObjectMetadataList"]
_SERVED = f"{JSON}, {YAML}, {PROTOBUF}, {JSON};stream=watch, {PROTOBUF};stream=watch"


@dataclass(frozen=True, slots=True)
class Representation:
    """``media`` is what the body is written as; ``view`` a meta.k8s.io transformation of the object."""

    media: str = JSON
    view: View = ""
    view_version: str = "v1"
    pretty: bool = False

    @property
    def content_type(self) -> str:
        """Value of the Content-Type header."""
        return self.media


def negotiate(accept: str, pretty: bool = False) -> Representation:
    """The first acceptable representation. Raises 406. JSON stands in for protobuf where both would do."""
    if not accept:
        return Representation(pretty=pretty)
    options = [_clause(clause) for clause in accept.split(",")]
    for media, params, _ in sorted(options, key=lambda o: -o[2]):
        if media in (JSON, PROTOBUF, "*/*", "application/*"):
            view = params.get("as", "")
            if view and (params.get("g") != "meta.k8s.io" or params.get("v") not in ("v1", "v1beta1")):
                continue
            if view not in ("", "Table", "PartialObjectMetadata", "PartialObjectMetadataList"):
                continue
            return Representation(JSON, view, params.get("v", "v1"), pretty)  # type: ignore[arg-type]
        if media in (YAML, "application/x-yaml", "text/yaml"):
            return Representation(YAML, pretty=pretty)
    message = f"406: Not Acceptable\n\nAvailable representations: {_SERVED}"
    raise status_error("NotAcceptable", message, {})


def _clause(text: str) -> tuple[str, dict[str, str], float]:
    media, *rest = [part.strip() for part in text.split(";")]
    params = dict(part.split("=", 1) for part in rest if "=" in part)
    try:
        weight = float(params.get("q", "1"))
    except ValueError:
        weight = 1.0
    return media.lower(), params, weight


def encode(body: Any, shape: Representation) -> bytes:
    """A body in the negotiated form; JSON ends with a newline as the real server's does."""
    if shape.media == YAML:
        return yaml.safe_dump(body, sort_keys=True, default_flow_style=False).encode()
    if shape.pretty:
        return orjson.dumps(body, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)
    return orjson.dumps(body, option=orjson.OPT_APPEND_NEWLINE)
