"""Query parameters of reads and writes, checked as the API server checks them."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from aiopslab.sim.core.apierrors import ApiError, Cause, bad_request, expired, invalid, status_error
from aiopslab.sim.core.deletion import check_propagation
from aiopslab.sim.core.kinds import Kind
from aiopslab.sim.core.options import DeleteOptions, WriteOptions
from aiopslab.sim.core.ports import Principal
from aiopslab.sim.core.selectors import FieldSelector, Selector, parse_fields, parse_labels
from aiopslab.sim.server.bodies import json_error
from aiopslab.sim.server.requestinfo import truthy

Obj = dict[str, Any]

MANAGER_MAX = 128
FIELD_VALIDATION = ("", "Ignore", "Strict", "Warn")


@dataclass(slots=True)
class ListOptions:
    """Parameters of list and watch. ``start`` is the ``(namespace, name)`` after which a page begins;
    ``timeout_s`` None means the server's default."""

    labels: Selector
    fields: FieldSelector
    limit: int = 0
    start: tuple[str, str] | None = None
    version: str = ""
    match: str = ""
    watch: bool = False
    bookmarks: bool = False
    initial_events: bool = False
    timeout_s: int | None = None


def list_options(query: Mapping[str, str], kind: Kind, watch: bool) -> ListOptions:
    """Parsed and checked. Raises 400 or 422."""
    options = ListOptions(
        labels=parse_labels(query.get("labelSelector", "")),
        fields=parse_fields(query.get("fieldSelector", ""), kind),
        limit=integer(query.get("limit", "")) or 0,
        version=query.get("resourceVersion", ""),
        match=query.get("resourceVersionMatch", ""),
        watch=watch,
        bookmarks=truthy(query.get("allowWatchBookmarks")),
        initial_events=truthy(query.get("sendInitialEvents")),
        timeout_s=integer(query.get("timeoutSeconds", "")),
    )
    if token := query.get("continue", ""):
        options.start = read_continue(token)
        if options.version not in ("", "0"):
            raise bad_request("specifying resource version is not allowed when using continue")
    _check_list(options, query)
    return options


def _check_list(options: ListOptions, query: Mapping[str, str]) -> None:
    causes = []
    if "sendInitialEvents" in query and not options.watch:
        causes.append(_forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list"))
    elif "sendInitialEvents" in query and options.match != "NotOlderThan":
        why = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
        causes.append(_forbidden("resourceVersionMatch", why))
    elif options.match and options.watch and "sendInitialEvents" not in query:
        causes.append(_forbidden("resourceVersionMatch", "resourceVersionMatch is forbidden for watch"))
    elif options.match and not options.watch:
        causes += _check_match(options)
    if causes:
        raise invalid(("ListOptions", "meta.k8s.io"), "", causes)
    if options.version and not options.version.isdigit():
        message = (
            f'Invalid value: "{options.version}": strconv.ParseUint: parsing "{options.version}": invalid syntax'
        )
        raise invalid(("", ""), "", [Cause("FieldValueInvalid", message, "resourceVersion")])


def _check_match(options: ListOptions) -> list[Cause]:
    if options.match not in ("Exact", "NotOlderThan"):
        message = f'Unsupported value: "{options.match}": supported values: "Exact", "NotOlderThan"'
        return [Cause("FieldValueNotSupported", message, "resourceVersionMatch")]
    if options.start is not None:
        return [_forbidden("resourceVersionMatch", "resourceVersionMatch is forbidden when continue is provided")]
    if not options.version:
        why = "resourceVersionMatch is forbidden unless resourceVersion is provided"
        return [_forbidden("resourceVersionMatch", why)]
    if options.match == "Exact" and options.version == "0":
        why = 'resourceVersionMatch "exact" is forbidden for resourceVersion "0"'
        return [_forbidden("resourceVersionMatch", why)]
    return []


def _forbidden(field: str, why: str) -> Cause:
    return Cause("FieldValueForbidden", f"Forbidden: {why}", field)


def integer(text: str) -> int | None:
    """An integer parameter; None when absent. Raises 400 in the words of Go's strconv."""
    if not text:
        return None
    try:
        return int(text)
    except ValueError:
        raise bad_request(f'strconv.ParseInt: parsing "{text}": invalid syntax') from None


def write_continue(revision: int, last: Obj) -> str:
    """The token of a page that ended with ``last``."""
    meta = last["metadata"]
    start = f"{meta.get('namespace', '')}/{meta['name']}"
    return (
        base64.urlsafe_b64encode(orjson.dumps({"v": "meta.k8s.io/v1", "rv": revision, "start": start}))
        .rstrip(b"=")
        .decode()
    )


def read_continue(token: str) -> tuple[str, str]:
    """Where a page starts. Raises 400 for tokens that this server did not write."""
    try:
        raw = base64.urlsafe_b64decode(token + "=" * (-len(token) % 4))
    except (binascii.Error, ValueError):
        raise bad_request(
            "invalid continue token: continue key is not valid: illegal base64 data at input byte 0"
        ) from None
    try:
        value = orjson.loads(raw)
        namespace, name = value["start"].split("/", 1)
    except orjson.JSONDecodeError:
        text = raw.decode("latin-1")
        why = json_error(text.encode())
        raise bad_request(f"invalid continue token: continue key is not valid: {why}") from None
    except (KeyError, TypeError, ValueError):
        raise bad_request(
            "invalid continue token: continue key is not valid: incorrect encoded start resourceVersion"
        ) from None
    return namespace, name


def check_version(version: str, match: str, current: int) -> None:
    """Refuse a list at a version that is not the current one: Exact and older, or newer than any."""
    if version in ("", "0"):
        return
    if int(version) > current:
        raise _too_large(version, current)
    if match == "Exact" and int(version) < current:
        raise expired("The resourceVersion for the provided list is too old.")


def _too_large(version: str, current: int) -> ApiError:
    message = f"Too large resource version: {version}, current: {current}"
    cause = {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}
    return status_error("Timeout", message, {"causes": [cause], "retryAfterSeconds": 1})


def write_options(
    query: Mapping[str, str], user: Principal, user_agent: str, verb: str, *, patch_type: str = ""
) -> WriteOptions:
    """Options of create, update and patch. Raises 422."""
    kind = {"create": "CreateOptions", "update": "UpdateOptions", "patch": "PatchOptions"}[verb]
    causes: list[Cause] = []
    dry_run = query.get("dryRun")
    if dry_run is not None and dry_run != "All":
        causes.append(
            Cause("FieldValueNotSupported", f'Unsupported value: ["{dry_run}"]: supported values: "All"', "dryRun")
        )
    validation = query.get("fieldValidation", "")
    if validation not in FIELD_VALIDATION:
        allowed = ", ".join(f'"{v}"' for v in FIELD_VALIDATION)
        message = f'Unsupported value: "{validation}": supported values: {allowed}'
        causes.append(Cause("FieldValueNotSupported", message, "fieldValidation"))
    manager = query.get("fieldManager", "")
    if len(manager) > MANAGER_MAX:
        causes.append(
            Cause(
                "FieldValueInvalid",
                f'Invalid value: "{manager}": Too long: may not be more than {MANAGER_MAX} bytes',
                "fieldManager",
            )
        )
    if patch_type == "apply" and not manager:
        causes.insert(0, Cause("FieldValueRequired", "Required value: is required for apply patch", "fieldManager"))
    if patch_type and patch_type != "apply" and "force" in query:
        causes.insert(0, _forbidden("force", "may not be specified for non-apply patch"))
    if causes:
        raise invalid((kind, "meta.k8s.io"), "", causes)
    return WriteOptions(
        manager=manager or manager_of(user_agent),
        dry_run=dry_run == "All",
        field_validation=validation,
        force=truthy(query.get("force")),
        user=user,
    )


def manager_of(user_agent: str) -> str:
    """The manager name of a client that gives none: the product of its User-Agent."""
    return user_agent.split("/")[0][:MANAGER_MAX] or "unknown"


def delete_options(query: Mapping[str, str], body: Obj, user: Principal) -> DeleteOptions:
    """Options of a delete; the body, when there is one, wins over the query. Raises 400 or 422."""
    preconditions = body.get("preconditions") or {}
    propagation = body.get("propagationPolicy") or query.get("propagationPolicy", "")
    orphan = body.get("orphanDependents", query.get("orphanDependents"))
    if not propagation and orphan is not None:
        propagation = "Orphan" if truthy(str(orphan)) else "Background"
    check_propagation(propagation)
    grace = body.get("gracePeriodSeconds")
    if grace is None:
        grace = integer(query.get("gracePeriodSeconds", ""))
    dry_run: Sequence[str] = body.get("dryRun") or ([query["dryRun"]] if "dryRun" in query else [])
    if dry_run and list(dry_run) != ["All"]:
        listed = ",".join(f'"{d}"' for d in dry_run)
        cause = Cause("FieldValueNotSupported", f'Unsupported value: [{listed}]: supported values: "All"', "dryRun")
        raise invalid(("DeleteOptions", "meta.k8s.io"), "", [cause])
    return DeleteOptions(
        grace_s=grace, propagation=propagation, uid=preconditions.get("uid", ""),
        resource_version=preconditions.get("resourceVersion", ""), dry_run=bool(dry_run), user=user,
    )  # fmt: skip
