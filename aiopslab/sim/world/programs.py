"""What container images do, read from ``apps/*/sim.toml``.

A *program* is chosen by a container's image. It listens, answers operations (RPC methods, HTTP routes), calls
other addresses while doing so, writes log lines and spans, and uses CPU and memory. Nothing here knows an
application by name: all of that is data. Times are milliseconds, unless a name ends in ``_s``.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec

from aiopslab.errors import ManifestError
from aiopslab.sim.world.programspec import Manifest, Op, Program, Step, Vocabulary, is_repository

_STACK = re.compile(r"\{stack:(\w+)\}")
SERVERS = "well-known servers"  # scope of the programs that belong to no application


class Programs:
    """All programs of all bundles, by ``Program.key``."""

    def __init__(self, manifests: Iterable[Manifest] = ()) -> None:
        self.all: dict[str, Program] = {}
        self._manifests: dict[str, Manifest] = {}
        self._sets: dict[str, dict[str, str]] = {}
        for manifest in manifests:
            self._add(manifest)

    @classmethod
    def load(cls, bundles: list[Path]) -> Programs:
        """Read every ``apps/*/sim.toml`` of the bundle folders, in order of folder and name.

        Raises ManifestError with the file's name when one cannot be used.
        """
        files = [file for bundle in bundles for file in sorted(bundle.glob("apps/*/sim.toml"))]
        loaded = [(file, read_manifest(file)) for file in files]
        known = read_manifest(Path(__file__).with_name("servers.toml"))
        known.name = SERVERS
        loaded.append((Path("servers.toml"), known))
        programs = cls(manifest for _, manifest in loaded)
        for file, manifest in loaded:
            programs._check(file, manifest)
        return programs

    def match(self, image: str) -> Program | None:
        """The program of an image, or None for one that nothing is known about."""
        return next((p for p in self.all.values() if p.matches(image)), None)

    def shares(self, repository: str) -> bool:
        """Whether a repository holds the images of several programs, told apart by tag."""
        shared = [w.partition("@")[0] for p in self.all.values() for w in p.images if "@" in w]
        return any(is_repository(repository, wanted) for wanted in shared)

    def named(self, name: str) -> list[Program]:
        """The programs of a name, at most one per manifest."""
        return [p for p in self.all.values() if p.name == name]

    def sibling(self, program: Program, name: str) -> Program:
        """The program of a name in the same manifest."""
        return self._manifests[program.scope].programs[name]

    def offering(self, program: Program, step: Step) -> list[Program]:
        """The programs whose operation a step of ``program`` may mean; right manifests have exactly one."""
        if not step.call:
            return [program] if step.op in program.ops else []
        siblings = self._manifests[program.scope].programs.values()
        return [p for p in siblings if step.op in p.ops and step.program in ("", p.name)]

    def operations(self) -> Iterable[tuple[Program, Op]]:
        """Every operation with its program, in order of reading."""
        return [(program, op) for program in self.all.values() for op in program.ops.values()]

    def flag_service(self, program: Program) -> Program | None:
        """The program that serves flags to ``program``."""
        if not program.flags:
            return None
        return next((p for p in self._manifests[program.scope].programs.values() if p.flag_file), None)

    def vocabulary(self, program: Program, name: str) -> Vocabulary | None:
        """A vocabulary as ``program`` sees it."""
        return self._manifests[program.scope].vocabularies.get(name)

    def vocabulary_size(self, program: Program, name: str) -> int:
        """How many words a vocabulary has; a set variable has the size of its vocabulary."""
        return len(self.words(program, name))

    def words(self, program: Program, name: str) -> list[str]:
        """The words of a vocabulary, or of the vocabulary of a set variable."""
        name = self._sets[program.scope].get(name, name)
        return self._manifests[program.scope].vocabularies[name].values

    def stack(self, program: Program, name: str) -> str:
        """A stack trace as ``program`` prints it, without a line end."""
        return self._manifests[program.scope].stacks.get(name, "").rstrip("\n")

    def is_set(self, program: Program, name: str) -> bool:
        """Whether a request variable is a set (a bit per word)."""
        return name in self._sets[program.scope]

    def _add(self, manifest: Manifest) -> None:
        scope = manifest.name
        while scope in self._manifests:
            scope += "+"  # another bundle has an application of this name
        self._manifests[scope] = manifest
        self._sets[scope] = manifest.sets
        for name, program in manifest.programs.items():
            program.name, program.scope = name, scope
            self.all[program.key] = program
            for op_name, op in program.ops.items():
                op.name, op.package = op_name, program.package
                op.steps = flatten(op.steps)
                if op.span is None:
                    op.span = default_span(program, op)

    def _check(self, file: Path, manifest: Manifest) -> None:
        for program in manifest.programs.values():
            _check_names(f"{file}: {program.name}", manifest, program)
            for op in program.ops.values():
                for step in op.steps:
                    self._check_step(f"{file}: {program.name}: {op.name}", program, step)
            for consumer in program.consumes:
                if consumer.op not in program.ops or consumer.broker not in manifest.programs:
                    raise ManifestError(
                        f"{file}: {program.name}: consumer group {consumer.group!r} needs an operation "
                        f"{consumer.op!r} here and a program {consumer.broker!r}; correct its op or broker"
                    )

    def _check_step(self, where: str, program: Program, step: Step) -> None:
        found = self.offering(program, step)
        if not found:
            raise ManifestError(f"{where}: no program offers {step.op!r}; correct the step's op")
        if len(found) > 1:
            names = ", ".join(p.name for p in found)
            raise ManifestError(f"{where}: {step.op!r} is offered by {names}; name one as the step's program")
        if not step.wait and step.on_error not in ("warn", "ignore"):
            raise ManifestError(f"{where}: {step.op!r} is not waited for; set its on_error to warn or ignore")
        known = self._sets[program.scope].keys() | self._manifests[program.scope].vocabularies.keys()
        if step.each and step.each not in known:
            raise ManifestError(
                f"{where}: no vocabulary or set {step.each!r}; "
                "add it under [vocabularies] or a program's users.sets"
            )
        flags = [step.when.flag if step.when else "", step.scale, step.copies]
        if any(flags) and self.flag_service(program) is None:
            raise ManifestError(
                f"{where}: a step needs a flag, but the program has no `flags` address "
                "or no program has a `flag_file`; add them"
            )


def _check_names(where: str, manifest: Manifest, program: Program) -> None:
    """Stack traces that texts take in and operations whose spans users make must be there."""
    for name in set(_STACK.findall(msgspec.json.encode(program).decode())) - manifest.stacks.keys():
        raise ManifestError(f"{where}: no stack trace {name!r}; add it under [stacks]")
    if program.users is None:
        return
    tasks = program.users.tasks
    named = {program.users.checks, *(name for task in tasks for name in (task.span, task.checks))}
    named |= {span.op for task in tasks for request in task.requests for span in request.spans}
    for name in sorted(named - program.ops.keys() - {""}):
        raise ManifestError(f"{where}: no operation {name!r} for a user's span; add it under ops")


def read_manifest(file: Path) -> Manifest:
    """Read one ``sim.toml``."""
    try:
        manifest = convert(tomllib.loads(file.read_text(encoding="utf-8")))
    except (OSError, tomllib.TOMLDecodeError, msgspec.ValidationError) as problem:
        raise ManifestError(f"{file}: {problem}") from None
    manifest.name = file.parent.name
    return manifest


def convert(data: dict[str, Any]) -> Manifest:
    """A manifest from parsed TOML."""
    return msgspec.convert(data, Manifest)


def flatten(steps: list[Step]) -> list[Step]:
    """Loops unrolled into their bodies, each body call marked with the number of its loop."""
    flat: list[Step] = []
    for number, step in enumerate(steps, 1):
        if step.steps:
            flat += [
                msgspec.structs.replace(s, loop=number, each=step.each, times=step.times, parallel=step.parallel)
                for s in step.steps
            ]
        else:
            flat.append(msgspec.structs.replace(step, loop=number))
    return flat


def default_span(program: Program, op: Op) -> str:
    """The span name that the instrumentation libraries give: the RPC's full name or the HTTP method; a function
    inside a program has its own name."""
    if op.local:
        return op.name
    if program.serves == "grpc":
        return f"{program.package}.{op.name}" if program.package else op.name
    return op.method if program.serves == "http" else ""
