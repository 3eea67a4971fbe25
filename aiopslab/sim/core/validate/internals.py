"""Objects as the API server's own types print them in messages: every field, by its Go name, also empty ones."""

from __future__ import annotations

from typing import Any

Obj = dict[str, Any]
# Fields of a type in its order. ``*`` marks what is null when absent (pointers, lists, maps); of the rest, ``#`` is
# a number, ``?`` a truth value and what has no mark a text. ``>`` names the type of a field or of its items.
_TYPES = {
    "SecurityContext": "Capabilities*>Capabilities Privileged* SELinuxOptions* WindowsOptions* RunAsUser* RunAsGroup* "
    "RunAsNonRoot* ReadOnlyRootFilesystem* AllowPrivilegeEscalation* ProcMount* SeccompProfile*>SeccompProfile "
    "AppArmorProfile*>SeccompProfile",
    "Capabilities": "Add* Drop*",
    "SeccompProfile": "Type LocalhostProfile*",
    "PodSpec": "Volumes*>Volume InitContainers*>Container Containers*>Container EphemeralContainers* RestartPolicy "
    "TerminationGracePeriodSeconds* ActiveDeadlineSeconds* DNSPolicy NodeSelector* ServiceAccountName "
    "AutomountServiceAccountToken* NodeName SecurityContext*>PodSecurityContext ImagePullSecrets*>Reference Hostname "
    "Subdomain SetHostnameAsFQDN* Affinity* SchedulerName Tolerations*>Toleration HostAliases* PriorityClassName "
    "Priority* PreemptionPolicy* DNSConfig* ReadinessGates* RuntimeClassName* Overhead* EnableServiceLinks* "
    "TopologySpreadConstraints* OS* SchedulingGates*>Reference ResourceClaims* Resources*>Resources HostnameOverride*",
    "PodSecurityContext": "HostNetwork? HostPID? HostIPC? ShareProcessNamespace* HostUsers* SELinuxOptions* "
    "WindowsOptions* RunAsUser* RunAsGroup* RunAsNonRoot* SupplementalGroups* SupplementalGroupsPolicy* FSGroup* "
    "FSGroupChangePolicy* Sysctls* SeccompProfile*>SeccompProfile AppArmorProfile*>SeccompProfile SELinuxChangePolicy*",
    "Container": "Name Image Command* Args* WorkingDir Ports*>Port EnvFrom* Env*>Variable Resources>Resources "
    "ResizePolicy* RestartPolicy* RestartPolicyRules* VolumeMounts*>Mount VolumeDevices* LivenessProbe*>Probe "
    "ReadinessProbe*>Probe StartupProbe*>Probe Lifecycle* TerminationMessagePath TerminationMessagePolicy "
    "ImagePullPolicy SecurityContext*>SecurityContext Stdin? StdinOnce? TTY?",
    "Port": "Name HostPort# ContainerPort# Protocol HostIP",
    "Variable": "Name Value ValueFrom*",
    "Resources": "Limits* Requests* Claims*",
    "Mount": "Name ReadOnly? RecursiveReadOnly* MountPath SubPath MountPropagation* SubPathExpr",
    "Probe": "Exec* HTTPGet* TCPSocket* GRPC* InitialDelaySeconds# TimeoutSeconds# PeriodSeconds# SuccessThreshold# "
    "FailureThreshold# TerminationGracePeriodSeconds*",
    "Reference": "Name",
    "Toleration": "Key Operator Value Effect TolerationSeconds*",
    "Volume": "Name HostPath* EmptyDir* GCEPersistentDisk* AWSElasticBlockStore* GitRepo* Secret* NFS* ISCSI* "
    "Glusterfs* PersistentVolumeClaim* RBD* Quobyte* FlexVolume* Cinder* CephFS* Flocker* DownwardAPI* FC* AzureFile* "
    "ConfigMap* VsphereVolume* AzureDisk* PhotonPersistentDisk* Projected* PortworxVolume* ScaleIO* StorageOS* CSI* "
    "Ephemeral* Image*",
    "PersistentVolumeClaimSpec": "AccessModes* Selector* Resources>VolumeResources VolumeName StorageClassName* "
    "VolumeMode* DataSource* DataSourceRef* VolumeAttributesClassName*",
    "VolumeResources": "Limits* Requests*",
    "PersistentVolumeSource": "GCEPersistentDisk* AWSElasticBlockStore* HostPath* Glusterfs* NFS* RBD* Quobyte* "
    "ISCSI* FlexVolume* Cinder* CephFS* FC* Flocker* AzureFile* VsphereVolume* AzureDisk* PhotonPersistentDisk* "
    "PortworxVolume* ScaleIO* Local* StorageOS* CSI*",
}
_ZEROS = {"*": None, "#": 0, "?": False}
# Fields that the server's type keeps elsewhere.
_HOST_FIELDS = ("hostNetwork", "hostPID", "hostIPC", "shareProcessNamespace", "hostUsers")
_UPPER = ("AWS", "CSI", "DNS", "FC", "FS", "GCE", "GRPC", "HTTP", "ISCSI", "NFS", "OS", "RBD", "SE", "TCP", "TTY")


def internal(type_: str, value: Obj) -> Obj:
    """``value``, an object of the API, as the named type prints it."""
    if type_ == "PodSpec":
        context = {**(value.get("securityContext") or {}), **{f: value[f] for f in _HOST_FIELDS if f in value}}
        value = {**value, "securityContext": context}
    made: Obj = {}
    for word in _TYPES[type_].split():
        plain, _, inner = word.partition(">")
        name = plain.rstrip("*#?")
        found = value.get(_json_name(name))
        if found is None:
            mark = plain[len(name) :]
            made[name] = internal(inner, {}) if inner and not mark else _ZEROS.get(mark, "")
        elif inner and isinstance(found, list):
            made[name] = [internal(inner, item) for item in found]
        else:
            made[name] = internal(inner, found) if inner else _capitalized(found, mapped=name in _MAPS)
    return made


def template_shown(template: Obj) -> Obj:
    """A pod template: its metadata has no field of its own there."""
    meta = template.get("metadata") or {}
    shown = {name: dict(sorted(value.items())) if isinstance(value, dict) else value for name, value in meta.items()}
    return {**shown, "Spec": internal("PodSpec", template.get("spec") or {})}


_MAPS = ("Limits", "Requests", "NodeSelector", "Overhead", "Selector")  # as they are


def _json_name(name: str) -> str:
    if name in ("CephFS", "StorageOS"):
        return name.lower()
    for upper in _UPPER:
        if name.startswith(upper):
            return upper.lower() + name[len(upper) :]
    return name[:1].lower() + name[1:]


def _capitalized(value: Any, *, mapped: bool = False) -> Any:
    """Types that are not described in full: what is set, by names as Go writes them."""
    if isinstance(value, list):
        return [_capitalized(item) for item in value]
    if mapped:
        return dict(sorted(value.items()))
    if isinstance(value, dict):
        return {name[:1].upper() + name[1:]: _capitalized(item) for name, item in value.items()}
    return value
