"""Where content lives: bundles, and reading the manifests in them.

A bundle is a folder that holds some of ``apps/ faults/ workloads/ problems/ helm/``. Listing reads
manifests only; a folder that cannot be read becomes a ``Broken`` row, never an exception.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from importlib import metadata, util
from pathlib import Path

import msgspec

from aiopslab.catalog.manifests import App, Broken, Fault, Manifest, Problem, Workload
from aiopslab.errors import ManifestError, UsageError

ENTRY_POINT_GROUP = "aiopslab.bundles"
CONTENT_FOLDERS = ("apps", "faults", "workloads", "problems", "helm")
# kind -> (folder of a bundle, its manifest, the record it is read into)
KINDS: dict[str, tuple[str, str, type[Manifest]]] = {
    "app": ("apps", "app.toml", App),
    "fault": ("faults", "fault.toml", Fault),
    "workload": ("workloads", "workload.toml", Workload),
    "problem": ("problems", "problem.toml", Problem),
}
_SET_BY_LOADER = {"id", "folder", "chart_path"}


def builtin_bundle() -> Path:
    """The content that comes with the package: inside an installed wheel, else the repository root.

    Raises ManifestError when the package was installed without it.
    """
    package = Path(__file__).resolve().parents[1]
    for root in (package / "_bundle", package.parent):
        if all((root / name).is_dir() for name in ("apps", "faults", "workloads", "problems")):
            return root
    raise ManifestError(f"{package}: the package has no content beside it; reinstall aiopslab")


def bundle_roots(extra: list[Path]) -> list[Path]:
    """Every bundle, each once: the built-in one, installed ones by name, then ``extra`` in order."""
    roots = [builtin_bundle(), *_installed_bundles()]
    for folder in extra:
        if not any((folder / name).is_dir() for name in CONTENT_FOLDERS):
            wanted = ", ".join(f"{name}/" for name in CONTENT_FOLDERS)
            raise UsageError(f"{folder} is not a bundle: it holds none of {wanted}; give its root folder")
        roots.append(folder)
    return list(dict.fromkeys(root.resolve() for root in roots))


def bundle_of(folder: Path) -> Path:
    """The bundle that a content folder such as ``my/problems/slow-cart`` is in."""
    resolved = folder.resolve()
    if resolved.parent.name in CONTENT_FOLDERS:
        return resolved.parent.parent
    raise UsageError(f"{folder} is not in a bundle: expected <bundle>/problems/<name>")


def read_kind(root: Path, kind: str) -> Iterator[Manifest | Broken]:
    """Every folder of one kind in a bundle, sorted by name."""
    folder_name, manifest_name, record = KINDS[kind]
    base = root / folder_name
    for folder in sorted(base.iterdir()) if base.is_dir() else ():
        if not folder.is_dir() or folder.name.startswith((".", "_")):
            continue
        try:
            yield read_manifest(folder / manifest_name, record)
        except ManifestError as error:
            yield Broken(kind=kind, id=folder.name, folder=folder, error=str(error))


def read_manifest(path: Path, record: type[Manifest]) -> Manifest:
    """One manifest file. Raises ManifestError naming the file and what is wrong in it."""
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ManifestError(f"{path.parent} has no {path.name}; write one or remove the folder") from None
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ManifestError(f"{path} cannot be read: {error}") from None
    for name in sorted(_SET_BY_LOADER & data.keys()):
        raise ManifestError(f"{path}: {name!r} cannot be set; it follows from the folder")
    try:
        manifest = msgspec.convert(data, type=record)
    except msgspec.ValidationError as error:
        raise ManifestError(f"{path}: {error}") from None
    manifest.id, manifest.folder = path.parent.name, path.parent
    return manifest


def _installed_bundles() -> Iterator[Path]:
    for point in sorted(metadata.entry_points(group=ENTRY_POINT_GROUP), key=lambda p: p.name):
        try:
            spec = util.find_spec(point.value)  # found, not imported: listing runs nobody's code
        except (ModuleNotFoundError, ValueError):
            continue  # left behind by a package that is gone
        for location in (spec.submodule_search_locations or []) if spec else []:
            yield Path(location)
