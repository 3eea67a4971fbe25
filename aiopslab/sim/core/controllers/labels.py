"""Label selectors as controllers apply them to objects."""

from __future__ import annotations

from collections.abc import Mapping

from aiopslab.sim.core.store import Obj


def label_selector_matches(selector: Obj | None, labels: Mapping[str, str]) -> bool:
    """A ``LabelSelector`` against labels. None matches nothing, an empty one everything."""
    if selector is None:
        return False
    for name, value in (selector.get("matchLabels") or {}).items():
        if labels.get(name) != value:
            return False
    return all(requirement_matches(entry, labels) for entry in selector.get("matchExpressions") or ())


def requirement_matches(requirement: Obj, labels: Mapping[str, str]) -> bool:
    """One ``matchExpressions`` entry: In, NotIn, Exists, DoesNotExist, Gt, Lt."""
    name, operator = requirement["key"], requirement["operator"]
    values = requirement.get("values") or []
    if operator == "In":
        return labels.get(name) in values
    if operator == "NotIn":
        return labels.get(name) not in values
    if operator == "Exists":
        return name in labels
    if operator == "DoesNotExist":
        return name not in labels
    try:
        have, bound = int(labels[name]), int(values[0])
    except (KeyError, ValueError, IndexError):
        return False
    return have > bound if operator == "Gt" else have < bound
