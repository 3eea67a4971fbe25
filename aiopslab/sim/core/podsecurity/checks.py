"""The Pod Security Standards of Kubernetes 1.36 as checks of a pod's metadata and spec.

A check gives None, or a reason and a detail. The order of ``CHECKS`` is the order in messages: those of baseline, then
those of restricted, each by name. A restricted check that says the same more strictly replaces one of baseline.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from aiopslab.sim.core.podsecurity.levels import BASELINE, PRIVILEGED, RESTRICTED, Level

Obj = dict[str, Any]
Judge = Callable[[Obj, Obj], "Violation | None"]

APPARMOR = "container.apparmor.security.beta.kubernetes.io/"
SECCOMP_POD = "seccomp.security.alpha.kubernetes.io/pod"
SECCOMP_CONTAINER = "container.seccomp.security.alpha.kubernetes.io/"
PROFILES = ("RuntimeDefault", "Localhost")
CAPABILITIES = frozenset({
    "AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD", "NET_BIND_SERVICE", "SETFCAP",
    "SETGID", "SETPCAP", "SETUID", "SYS_CHROOT",
})  # fmt: skip
VOLUMES = frozenset({
    "configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "image", "persistentVolumeClaim", "projected", "secret",
})  # fmt: skip
SELINUX_TYPES = ("", "container_t", "container_init_t", "container_kvm_t")
SYSCTLS = frozenset({
    "kernel.shm_rmid_forced", "net.ipv4.ip_local_port_range", "net.ipv4.tcp_syncookies", "net.ipv4.ping_group_range",
    "net.ipv4.ip_unprivileged_port_start",
})  # fmt: skip
SYSCTLS_27 = SYSCTLS | {"net.ipv4.ip_local_reserved_ports"}
SYSCTLS_29 = SYSCTLS_27 | {
    "net.ipv4.tcp_keepalive_time", "net.ipv4.tcp_fin_timeout", "net.ipv4.tcp_keepalive_intvl",
    "net.ipv4.tcp_keepalive_probes",
}  # fmt: skip
SYSCTLS_32 = SYSCTLS_29 | {"net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem"}


class Violation(NamedTuple):
    """Why a pod does not meet a standard; ``detail`` names the parts."""

    reason: str
    detail: str


def violations(level: Level, meta: Obj, spec: Obj) -> list[Violation]:
    """What a pod does that a level forbids."""
    if level.name == PRIVILEGED:
        return []
    found = []
    for check in CHECKS:
        judge = check.at(level)
        violation = judge(meta, spec) if judge else None
        if violation is not None:
            found.append(violation)
    return found


class Check(NamedTuple):
    """A control. ``versions`` are the minor versions from which a judge applies, in rising order; ``replaced_from`` is
    the version from which restricted has a stricter form of this baseline control."""

    level: str
    versions: tuple[tuple[int, Judge], ...]
    replaced_from: int | None = None

    def at(self, level: Level) -> Judge | None:
        """What applies at a level and version, if anything does."""
        if self.level == RESTRICTED and level.name == BASELINE:
            return None
        if level.name == RESTRICTED and self.replaced_from is not None and level.minor >= self.replaced_from:
            return None
        return next((judge for minor, judge in reversed(self.versions) if level.minor >= minor), None)


def _containers(spec: Obj) -> Iterator[Obj]:
    for field in ("initContainers", "containers", "ephemeralContainers"):
        yield from spec.get(field) or ()


def _context(owner: Obj) -> Obj:
    return owner.get("securityContext") or {}


def _quoted(names: Iterable[str]) -> str:
    return ", ".join(f'"{name}"' for name in names)


def _counted(one: str, names: list[str]) -> str:
    return f"{one}{'s' if len(names) != 1 else ''} {_quoted(names)}"


def _setters(spec: Obj, sets: Callable[[Obj], bool]) -> list[str]:
    """``pod`` and ``containers "a", "b"`` whose security context does something."""
    found = ["pod"] if sets(_context(spec)) else []
    names = [c["name"] for c in _containers(spec) if sets(_context(c))]
    return [*found, _counted("container", names)] if names else found


# Baseline ---------------------------------------------------------------------------------------------------------


def _apparmor(meta: Obj, spec: Obj) -> Violation | None:
    values: set[str] = set()

    def sets(context: Obj) -> bool:
        kind = (context.get("appArmorProfile") or {}).get("type")
        if kind is None or kind in PROFILES:
            return False
        values.add(kind)
        return True

    setters = _setters(spec, sets)
    annotations = sorted(
        f'{key}="{value}"'
        for key, value in (meta.get("annotations") or {}).items()
        if key.startswith(APPARMOR) and value not in ("", "runtime/default") and not value.startswith("localhost/")
    )
    if annotations:
        setters.append("annotation" if len(annotations) == 1 else "annotations")
    if not setters:
        return None
    bad = [*sorted(values), *annotations]
    reason = "forbidden AppArmor profile" + ("s" if len(bad) != 1 else "")
    return Violation(reason, f"{' and '.join(setters)} must not set AppArmor profile type to {_quoted(bad)}")


def _added(spec: Obj, allowed: frozenset[str]) -> str:
    """Which containers add capabilities beyond a set; empty when none does."""
    bad: dict[str, set[str]] = {}
    for container in _containers(spec):
        extra = set((_context(container).get("capabilities") or {}).get("add") or ()) - allowed
        if extra:
            bad[container["name"]] = extra
    if not bad:
        return ""
    names = _quoted(sorted(set().union(*bad.values())))
    return f"{_counted('container', [*bad])} must not include {names} in securityContext.capabilities.add"


def _capabilities(_meta: Obj, spec: Obj) -> Violation | None:
    detail = _added(spec, CAPABILITIES)
    return Violation("non-default capabilities", detail) if detail else None


def _host_namespaces(_meta: Obj, spec: Obj) -> Violation | None:
    used = [f"{field}=true" for field in ("hostIPC", "hostNetwork", "hostPID") if spec.get(field)]
    return Violation("host namespaces", ", ".join(used)) if used else None


def _host_paths(_meta: Obj, spec: Obj) -> Violation | None:
    names = [v["name"] for v in spec.get("volumes") or () if v.get("hostPath") is not None]
    return Violation("hostPath volumes", _counted("volume", names)) if names else None


def _host_ports(_meta: Obj, spec: Obj) -> Violation | None:
    bad: dict[str, set[str]] = {}
    for container in _containers(spec):
        ports = {str(p["hostPort"]) for p in container.get("ports") or () if p.get("hostPort")}
        if ports:
            bad[container["name"]] = ports
    if not bad:
        return None
    used = sorted(set().union(*bad.values()))
    uses = "uses" if len(bad) == 1 else "use"
    noun = "hostPort" if len(used) == 1 else "hostPorts"
    return Violation("hostPort", f"{_counted('container', [*bad])} {uses} {noun} {', '.join(used)}")


def _host_probes(_meta: Obj, spec: Obj) -> Violation | None:
    bad: dict[str, set[str]] = {}
    for container in _containers(spec):
        hooks = container.get("lifecycle") or {}
        handlers = [container.get(f"{kind}Probe") for kind in ("liveness", "readiness", "startup")]
        handlers += [hooks.get("postStart"), hooks.get("preStop")]
        hosts = {
            host
            for handler in handlers
            for kind in ("httpGet", "tcpSocket")
            if (host := ((handler or {}).get(kind) or {}).get("host"))
        }
        if hosts:
            bad[container["name"]] = hosts
    if not bad:
        return None
    uses = "uses" if len(bad) == 1 else "use"
    named = _counted("probe or lifecycle host", sorted(set().union(*bad.values())))
    return Violation("probe or lifecycle host", f"{_counted('container', sorted(bad))} {uses} {named}")


def _privileged(_meta: Obj, spec: Obj) -> Violation | None:
    names = [c["name"] for c in _containers(spec) if _context(c).get("privileged")]
    if not names:
        return None
    return Violation("privileged", f"{_counted('container', names)} must not set securityContext.privileged=true")


def _proc_mount(_meta: Obj, spec: Obj) -> Violation | None:
    mounts = {c["name"]: _context(c).get("procMount") or "Default" for c in _containers(spec)}
    bad = {name: mount for name, mount in mounts.items() if mount != "Default"}
    if not bad:
        return None
    values = _quoted(sorted(set(bad.values())))
    return Violation("procMount", f"{_counted('container', [*bad])} must not set securityContext.procMount to {values}")


def _selinux(*more: str) -> Judge:
    def judge(_meta: Obj, spec: Obj) -> Violation | None:
        types: set[str] = set()
        parts: dict[str, bool] = {}

        def sets(context: Obj) -> bool:
            options = context.get("seLinuxOptions") or {}
            kind = options.get("type", "")
            wrong = kind not in (*SELINUX_TYPES, *more)
            if wrong:
                types.add(kind)
            for part in ("user", "role"):
                if options.get(part):
                    parts[part] = wrong = True
            return wrong

        setters = _setters(spec, sets)
        if not setters:
            return None
        data = [_counted("type", sorted(types))] if types else []
        data += [f"{part} may not be set" for part in ("user", "role") if part in parts]
        detail = f"{' and '.join(setters)} set forbidden securityContext.seLinuxOptions: {'; '.join(data)}"
        return Violation("seLinuxOptions", detail)

    return judge


def _seccomp_annotations(meta: Obj, spec: Obj) -> Violation | None:
    annotations = meta.get("annotations") or {}
    keys = [SECCOMP_POD, *(SECCOMP_CONTAINER + c["name"] for c in _containers(spec))]
    bad = sorted(
        f'{key}="{annotations[key]}"'
        for key in keys
        if key in annotations
        and annotations[key] not in ("runtime/default", "docker/default")
        and not annotations[key].startswith("localhost/")
    )
    if not bad:
        return None
    return Violation("seccompProfile", f"forbidden annotation{'s' if len(bad) != 1 else ''} {', '.join(bad)}")


def _seccomp(_meta: Obj, spec: Obj) -> Violation | None:
    values: set[str] = set()

    def sets(context: Obj) -> bool:
        profile = context.get("seccompProfile")
        if profile is None or profile.get("type") in PROFILES:
            return False
        values.add(profile.get("type", ""))
        return True

    setters = _setters(spec, sets)
    if not setters:
        return None
    detail = f"{' and '.join(setters)} must not set securityContext.seccompProfile.type to {_quoted(sorted(values))}"
    return Violation("seccompProfile", detail)


def _sysctls(allowed: frozenset[str]) -> Judge:
    def judge(_meta: Obj, spec: Obj) -> Violation | None:
        bad = [s["name"] for s in _context(spec).get("sysctls") or () if s["name"] not in allowed]
        return Violation("forbidden sysctls", ", ".join(bad)) if bad else None

    return judge


def _host_process(_meta: Obj, spec: Obj) -> Violation | None:
    setters = _setters(spec, lambda context: bool((context.get("windowsOptions") or {}).get("hostProcess")))
    if not setters:
        return None
    detail = f"{' and '.join(setters)} must not set securityContext.windowsOptions.hostProcess=true"
    return Violation("hostProcess", detail)


# Restricted -------------------------------------------------------------------------------------------------------


def _is_windows(spec: Obj) -> bool:
    return (spec.get("os") or {}).get("name") == "windows"


def _unless(exempt: Callable[[Obj], bool], judge: Judge) -> Judge:
    return lambda meta, spec: None if exempt(spec) else judge(meta, spec)


def _escalation(_meta: Obj, spec: Obj) -> Violation | None:
    names = [c["name"] for c in _containers(spec) if _context(c).get("allowPrivilegeEscalation") is not False]
    if not names:
        return None
    detail = f"{_counted('container', names)} must set securityContext.allowPrivilegeEscalation=false"
    return Violation("allowPrivilegeEscalation != false", detail)


def _dropped(_meta: Obj, spec: Obj) -> Violation | None:
    kept = [
        c["name"]
        for c in _containers(spec)
        if "ALL" not in ((_context(c).get("capabilities") or {}).get("drop") or ())
    ]
    details = [f'{_counted("container", kept)} must set securityContext.capabilities.drop=["ALL"]'] if kept else []
    details += filter(None, [_added(spec, frozenset({"NET_BIND_SERVICE"}))])
    return Violation("unrestricted capabilities", "; ".join(details)) if details else None


def _volumes(_meta: Obj, spec: Obj) -> Violation | None:
    bad: dict[str, str] = {}
    for volume in spec.get("volumes") or ():
        kinds = [key for key, value in volume.items() if key != "name" and value is not None]
        if not VOLUMES.intersection(kinds):
            bad[volume["name"]] = kinds[0] if kinds else "unknown"
    if not bad:
        return None
    uses = "uses" if len(bad) == 1 else "use"
    types = _counted("restricted volume type", sorted(set(bad.values())))
    return Violation("restricted volume types", f"{_counted('volume', [*bad])} {uses} {types}")


def _implicit(spec: Obj, field: str) -> list[str]:
    """Containers for which neither they nor their pod set a field of the security context."""
    if _context(spec).get(field) is not None:
        return []
    return [c["name"] for c in _containers(spec) if _context(c).get(field) is None]


def _non_root(_meta: Obj, spec: Obj) -> Violation | None:
    setters = _setters(spec, lambda context: context.get("runAsNonRoot") is False)
    if setters:
        detail = f"{' and '.join(setters)} must not set securityContext.runAsNonRoot=false"
        return Violation("runAsNonRoot != true", detail)
    names = _implicit(spec, "runAsNonRoot")
    if not names:
        return None
    detail = f"pod or {_counted('container', names)} must set securityContext.runAsNonRoot=true"
    return Violation("runAsNonRoot != true", detail)


def _user(_meta: Obj, spec: Obj) -> Violation | None:
    setters = _setters(spec, lambda context: context.get("runAsUser") == 0)
    return Violation("runAsUser=0", f"{' and '.join(setters)} must not set runAsUser=0") if setters else None


def _seccomp_required(meta: Obj, spec: Obj) -> Violation | None:
    wrong = _seccomp(meta, spec)
    names = _implicit(spec, "seccompProfile")
    if wrong is not None or not names:
        return wrong
    types = " or ".join(f'"{profile}"' for profile in PROFILES)
    detail = f"pod or {_counted('container', names)} must set securityContext.seccompProfile.type to {types}"
    return Violation("seccompProfile", detail)


def _has_user_namespace(spec: Obj) -> bool:
    return spec.get("hostUsers") is False


CHECKS = (
    Check(BASELINE, ((0, _apparmor),)),
    Check(BASELINE, ((0, _capabilities),), replaced_from=22),
    Check(BASELINE, ((0, _host_namespaces),)),
    Check(BASELINE, ((0, _host_paths),), replaced_from=0),
    Check(BASELINE, ((0, _host_ports),)),
    Check(BASELINE, ((34, _host_probes),)),
    Check(BASELINE, ((0, _privileged),)),
    Check(BASELINE, ((0, _proc_mount), (35, _unless(_has_user_namespace, _proc_mount))), replaced_from=35),
    Check(BASELINE, ((0, _selinux()), (31, _selinux("container_engine_t")))),
    Check(BASELINE, ((0, _seccomp_annotations), (19, _seccomp)), replaced_from=19),
    Check(BASELINE, ((0, _sysctls(SYSCTLS)), (27, _sysctls(SYSCTLS_27)), (29, _sysctls(SYSCTLS_29)),
                     (32, _sysctls(SYSCTLS_32)))),
    Check(BASELINE, ((0, _host_process),)),
    Check(RESTRICTED, ((8, _escalation), (25, _unless(_is_windows, _escalation)))),
    Check(RESTRICTED, ((22, _dropped), (25, _unless(_is_windows, _dropped)))),
    Check(RESTRICTED, ((35, _proc_mount),)),
    Check(RESTRICTED, ((0, _volumes),)),
    Check(RESTRICTED, ((0, _non_root), (35, _unless(_has_user_namespace, _non_root)))),
    Check(RESTRICTED, ((23, _user), (35, _unless(_has_user_namespace, _user)))),
    Check(RESTRICTED, ((19, _seccomp_required), (25, _unless(_is_windows, _seccomp_required)))),
)  # fmt: skip
