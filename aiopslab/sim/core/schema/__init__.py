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
from aiopslab.sim.core.schema.strict import (
    canonical_quantity,
    conversion_error,
    duplicate_fields,
    strict_error,
    type_errors,
    typed,
    unknown_fields,
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
    "duplicate_fields",
    "gvk_of",
    "node",
    "node_for",
    "node_of",
    "strict_error",
    "type_errors",
    "typed",
    "unknown_fields",
]
