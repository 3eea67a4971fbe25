"""Schemas of the served kinds: lookups, strict decoding, OpenAPI documents."""

from aiopslab.sim.core.schema.nodes import (
    ANY,
    ANY_OBJECT,
    Gvk,
    KindLike,
    Node,
    crd_node,
    definition,
    definition_name,
    definitions,
    gvk_of,
    node,
    node_for,
    node_of,
)
from aiopslab.sim.core.schema.openapi import document_hash, openapi_v3
from aiopslab.sim.core.schema.strict import (
    canonical_quantity,
    conversion_error,
    duplicate_fields,
    strict_error,
    type_errors,
    typed,
    unknown_fields,
    yaml_error,
)

__all__ = [
    "ANY",
    "ANY_OBJECT",
    "Gvk",
    "KindLike",
    "Node",
    "canonical_quantity",
    "conversion_error",
    "crd_node",
    "definition",
    "definition_name",
    "definitions",
    "document_hash",
    "duplicate_fields",
    "gvk_of",
    "node",
    "node_for",
    "node_of",
    "openapi_v3",
    "strict_error",
    "type_errors",
    "typed",
    "unknown_fields",
    "yaml_error",
]
