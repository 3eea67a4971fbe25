"""Is the application as it was, once the lab has taken the fault back? Proves problems; judges no agent."""

from __future__ import annotations

from aiopslab.grading.damage import content, declared, listed
from aiopslab.record import Check, Snapshot


def check_recovered(before: Snapshot | None, after: Snapshot | None) -> Check:
    """Compare the declared objects before the injection with those after the recovery, replicas included.

    Nothing may be missing, left over or different; what controllers make is not compared.
    """
    name = "recovered"
    if before is None or after is None:
        return Check(
            name=name, ok=None, detail="The snapshots before the injection and after the recovery are needed."
        )
    old, new = declared(before), declared(after)
    phrases = []
    for verb, found in (
        ("missing", sorted(set(old) - set(new))),
        ("left over", sorted(set(new) - set(old))),
        (
            "different",
            sorted(key for key in set(old) & set(new) if _compared(old[key]) != _compared(new[key])),
        ),
    ):
        if found:
            phrases.append(f"{verb}: {listed(found)}")
    if phrases:
        return Check(name=name, ok=False, detail="; ".join(phrases) + ".")
    return Check(name=name, ok=True, detail=f"All {len(old)} objects are as they were.")


def _compared(obj: dict[str, object]) -> tuple[object, object]:
    spec = obj.get("spec")
    return content(obj), spec.get("replicas") if isinstance(spec, dict) else None
