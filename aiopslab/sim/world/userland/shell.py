"""Interpreter for parsed shell scripts: expansion, pipelines, redirections, control flow."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial

from aiopslab.sim.world.userland import shell_tree as ast
from aiopslab.sim.world.userland.arithmetic import ArithmeticError_, evaluate
from aiopslab.sim.world.userland.io import NO_SPACE
from aiopslab.sim.world.userland.machine import Machine
from aiopslab.sim.world.userland.shell_builtins import BUILTINS, Exit, LoopJump, Return
from aiopslab.sim.world.userland.shell_parser import ShellSyntaxError, parse, skip_double, skip_parens

LOOP_ROUNDS_MAX = 2_000
CALLS_DEEP_MAX = 30
Runner = Callable[[list[str], bytes, dict[str, str]], tuple[bytes, bytes, int]]


@dataclass
class Shell:
    """One ``sh``. ``run_program`` runs anything that is not built in."""

    machine: Machine
    run_program: Runner
    name: str = "sh"
    arguments: list[str] = field(default_factory=list)
    variables: dict[str, str] = field(default_factory=dict)
    functions: dict[str, ast.Sequence] = field(default_factory=dict)
    status: int = 0
    ends_on_error: bool = False  # ``set -e``
    zero: str = ""  # $0 when ``sh -c SCRIPT NAME`` gives one
    out: bytearray = field(default_factory=bytearray)
    err: bytearray = field(default_factory=bytearray)
    _tests: int = 0  # conditions around the present command
    _depth: int = 0  # functions around it

    def run(self, script: str, stdin: bytes = b"") -> int:
        """Run a script; output collects in ``out`` and ``err``. Returns the exit code."""
        try:
            self.sequence(parse(script), bytearray(stdin), self.out)
        except ShellSyntaxError as error:
            self.complain(str(error))
            self.status = 2
        except ArithmeticError_ as error:
            self.complain(str(error))
            self.status = 2
        except Exit as done:
            self.status = done.code
        except (LoopJump, Return):
            pass
        return self.status

    def complain(self, text: str) -> None:
        self.err += f"{self.name}: {text}\n".encode()

    def environment(self) -> dict[str, str]:
        return {**self.machine.env, **self.variables}

    # control flow ---------------------------------------------------------------------------------------

    def sequence(self, tree: ast.Sequence, stdin: bytearray, out: bytearray) -> None:
        for item in tree.items:
            self._and_or(item, stdin, out)

    def _and_or(self, item: ast.AndOr, stdin: bytearray, out: bytearray) -> None:
        last = item.parts[-1][1]
        for operator, pipeline in item.parts:
            if (operator == "&&" and self.status != 0) or (operator == "||" and self.status == 0):
                continue
            self._pipeline(pipeline, stdin, out)
            if self.status and self.ends_on_error and not self._tests and pipeline is last and not pipeline.negate:
                raise Exit(self.status)

    def _holds(self, condition: ast.Sequence, stdin: bytearray, out: bytearray) -> bool:
        """Run what ``if`` and ``while`` ask; a failure in it is an answer, also after ``set -e``."""
        self._tests += 1
        try:
            self.sequence(condition, stdin, out)
        finally:
            self._tests -= 1
        return self.status == 0

    def _pipeline(self, pipeline: ast.Pipeline, stdin: bytearray, out: bytearray) -> None:
        data = stdin
        several = len(pipeline.commands) > 1
        for command in pipeline.commands:
            target = out if command is pipeline.commands[-1] else bytearray()
            if several:
                self._apart(partial(self._command, command, data, target))
            else:
                self._command(command, data, target)
            data = bytearray(target)
        if pipeline.negate:
            self.status = int(self.status == 0)

    def _apart(self, run: Callable[[], None]) -> None:
        """A subshell: what it sets, and its ``exit``, stay in it."""
        saved = dict(self.variables), dict(self.functions), list(self.arguments), self.machine.workdir
        try:
            run()
        except Exit as done:
            self.status = done.code
        finally:
            self.variables, self.functions, self.arguments, self.machine.workdir = saved

    def _command(self, command: ast.Command, stdin: bytearray, out: bytearray) -> None:
        streams = self._redirected(command.redirects, stdin, out)
        if streams is None:
            self.status = 1
            return
        data, target, finish = streams
        try:
            self._perform(command, data, target)
        finally:  # also what was written before an ``exit``
            finish()

    def _perform(self, command: ast.Command, data: bytearray, target: bytearray) -> None:
        if isinstance(command, ast.Simple):
            self._simple(command, data, target)
        elif isinstance(command, ast.Group):
            if command.subshell:
                self._apart(lambda: self.sequence(command.body, data, target))
            else:
                self.sequence(command.body, data, target)
        elif isinstance(command, ast.If):
            self._if(command, data, target)
        elif isinstance(command, ast.Case):
            self._case(command, data, target)
        elif isinstance(command, ast.Function):
            self.functions[command.name] = command.body
            self.status = 0
        else:
            self._loop(command, data, target)

    def _if(self, command: ast.If, stdin: bytearray, out: bytearray) -> None:
        for condition, body in command.branches:
            if self._holds(condition, stdin, out):
                self.sequence(body, stdin, out)
                return
        self.status = 0
        if command.otherwise is not None:
            self.sequence(command.otherwise, stdin, out)

    def _case(self, command: ast.Case, stdin: bytearray, out: bytearray) -> None:
        word = "".join(self.expand(command.word, split=False))
        self.status = 0
        for patterns, body in command.branches:
            if any(fnmatch.fnmatchcase(word, self._pattern(raw)) for raw in patterns):
                self.sequence(body, stdin, out)
                return

    def _pattern(self, raw: str) -> str:
        """A ``case`` pattern: what is quoted in it means itself."""
        text = "".join(self.expand(raw, split=False))
        return re.sub(r"([*?[])", r"[\1]", text) if raw[:1] in ("'", '"') else text

    def _call(self, argv: list[str], stdin: bytearray, out: bytearray) -> None:
        """A function: arguments of its own, everything else shared."""
        outer, self.arguments = self.arguments, argv[1:]
        self._depth += 1
        try:
            if self._depth > CALLS_DEEP_MAX:
                self.complain("maximum function nesting level exceeded")
                raise Exit(2)
            self.sequence(self.functions[argv[0]], stdin, out)
        except Return:
            pass
        finally:
            self._depth -= 1
            self.arguments = outer

    def _loop(self, command: ast.For | ast.While, stdin: bytearray, out: bytearray) -> None:
        status = 0
        for _ in self._rounds(command, stdin, out):
            try:
                self.sequence(command.body, stdin, out)
            except LoopJump as jump:
                if jump.kind == "break":
                    break
            status = self.status
        self.status = status

    def _rounds(self, command: ast.For | ast.While, stdin: bytearray, out: bytearray) -> Iterator[None]:
        if isinstance(command, ast.For):
            for word in [w for raw in command.words for w in self.expand(raw)]:
                self.variables[command.name] = word
                yield
            return
        for _ in range(LOOP_ROUNDS_MAX):
            if self._holds(command.condition, stdin, out) == command.negate:
                return
            yield

    # simple commands ------------------------------------------------------------------------------------

    def _simple(self, command: ast.Simple, stdin: bytearray, out: bytearray) -> None:
        argv = [word for raw in command.words for word in self.expand(raw)]
        values = {name: "".join(self.expand(value, split=False)) for name, value in command.assignments}
        if not argv:
            self.variables.update(values)
            self.status = 0
            return
        if argv[0] in self.functions:
            self._call(argv, stdin, out)
            return
        builtin = BUILTINS.get(argv[0])
        if builtin is not None:
            outer = {name: self.variables.get(name) for name in values}
            self.variables.update(values)  # ``IFS= read``
            self.status = builtin(self, argv, stdin, out)
            for name, value in outer.items():
                if value is None:
                    self.variables.pop(name, None)
                else:
                    self.variables[name] = value
            return
        stdout, stderr, self.status = self.run_program(argv, bytes(stdin), {**self.environment(), **values})
        out += stdout
        self.err += stderr

    def _redirected(
        self, redirects: list[ast.Redirect], stdin: bytearray, out: bytearray
    ) -> tuple[bytearray, bytearray, Callable[[], None]] | None:
        """Where a command reads and writes, and what to do afterwards; None when a file cannot be opened."""
        data, target = stdin, out
        error_mark = len(self.err)
        error_to: str | None = None
        file_to: tuple[str, bool] | None = None
        for redirect in redirects:
            word = "".join(self.expand(redirect.target, split=False)) if redirect.kind != "<<" else redirect.target
            if redirect.kind == "<<":
                data = bytearray((word if redirect.quoted else self._double(word)).encode())
            elif redirect.kind == "<<<":
                data = bytearray((word + "\n").encode())
            elif redirect.kind == "<":
                content = self.machine.files.get(self.machine.resolved(word))
                if content is None:
                    self.complain(f"can't open {word}: no such file")
                    return None
                data = bytearray(content)
            elif redirect.kind == ">&":
                error_to = "stdout" if redirect.fd == 2 else error_to
                if redirect.fd == 1:
                    target = self.err
            elif redirect.fd == 2:
                error_to = word
            else:
                if word != "/dev/null" and not self.machine.writable(word):
                    self.complain(f"can't create {word}: {self._refusal()}")
                    return None
                file_to, target = (word, redirect.kind == ">>"), bytearray()

        def finish() -> None:
            if error_to is not None:
                moved = bytes(self.err[error_mark:])
                del self.err[error_mark:]
                if error_to == "stdout":
                    target.extend(moved)
                elif error_to != "/dev/null":
                    self._write(error_to, moved, append=False)
            if file_to is not None:
                self._write(file_to[0], bytes(target), append=file_to[1])

        return data, target, finish

    def _refusal(self) -> str:
        return "Read-only file system" if self.machine.read_only else "Permission denied"

    def _write(self, path: str, data: bytes, append: bool) -> None:
        if path == "/dev/null":
            return
        full = self.machine.resolved(path)
        before, bulk = (self.machine.files.get(full, b""), self.machine.bulk.get(full, 0)) if append else (b"", 0)
        if not self.machine.store(full, before + data, bulk):
            self.complain(f"write error: {NO_SPACE}")
            self.status = 1

    # expansion ------------------------------------------------------------------------------------------

    def expand(self, raw: str, split: bool = True) -> list[str]:
        """Expand one raw word: quotes, ``$``, command substitution, field splitting, globs."""
        fields: list[str] = [""]
        quoted = literal = False
        at = 0
        while at < len(raw):
            char = raw[at]
            if char == "'":
                end = raw.index("'", at + 1)
                fields[-1] += raw[at + 1 : end]
                at, quoted = end + 1, True
            elif char == '"':
                end = skip_double(raw, at)
                if raw[at:end] == '"$@"':
                    fields[-1:] = [fields[-1] + a for a in self.arguments] or [fields[-1]]
                else:
                    fields[-1] += self._double(raw[at + 1 : end - 1])
                at, quoted = end, True
            elif char == "\\":
                fields[-1] += raw[at + 1 : at + 2]
                at, literal = at + 2, True
            elif char in "$`":
                value, at = self._dollar(raw, at)
                self._append_split(fields, value, split)
            elif char == "~" and at == 0 and raw[1:2] in ("", "/"):
                fields[-1] += self.environment().get("HOME", "/")
                at += 1
            else:
                fields[-1] += char
                at += 1
        if not split:
            return ["".join(fields)]
        if quoted or literal:
            return fields
        return [name for text in fields if text for name in self._glob(text)]

    @staticmethod
    def _append_split(fields: list[str], value: str, split: bool) -> None:
        if not split:
            fields[-1] += value
            return
        parts = value.split()
        if not parts:
            if value:
                fields.append("")
            return
        if value[0].isspace():
            fields.append("")
        fields[-1] += parts[0]
        fields.extend(parts[1:])
        if value[-1].isspace():
            fields.append("")

    def _glob(self, text: str) -> list[str]:
        if not any(c in text for c in "*?["):
            return [text]
        head, _, pattern = text.rpartition("/")
        folder = head or ("/" if text.startswith("/") else ".")
        names = [n for n in self.machine.children(folder) if fnmatch.fnmatchcase(n, pattern)]
        prefix = text[: len(text) - len(pattern)]
        return [prefix + n for n in names if pattern.startswith(".") or not n.startswith(".")] or [text]

    def _double(self, text: str) -> str:
        """Expansion inside double quotes."""
        result = ""
        at = 0
        while at < len(text):
            if text[at] == "\\" and text[at + 1 : at + 2] in ('"', "\\", "$", "`", "\n"):
                result += text[at + 1] if text[at + 1] != "\n" else ""
                at += 2
            elif text[at] in "$`":
                value, at = self._dollar(text, at)
                result += value
            else:
                result += text[at]
                at += 1
        return result

    def _dollar(self, text: str, at: int) -> tuple[str, int]:
        if text[at] == "`":
            end = text.index("`", at + 1)
            return self._substitute(text[at + 1 : end]), end + 1
        if text.startswith("$((", at):
            end = skip_parens(text, at + 1)
            return str(self._arithmetic(text[at + 3 : end - 2])), end
        if text.startswith("$(", at):
            end = skip_parens(text, at + 1)
            return self._substitute(text[at + 2 : end - 1]), end
        if text.startswith("${", at):
            end = text.index("}", at)
            return self._parameter(text[at + 2 : end]), end + 1
        end = at + 1
        if text[end : end + 1] in ("?", "$", "#", "@", "*", "!") or text[end : end + 1].isdigit():
            return self._parameter(text[end]), end + 1
        while end < len(text) and (text[end].isalnum() or text[end] == "_"):
            end += 1
        return (self._parameter(text[at + 1 : end]) if end > at + 1 else "$"), end

    def _parameter(self, body: str) -> str:
        if body.startswith("#") and len(body) > 1:
            return str(len(self._value(body[1:])))
        for mark in (":-", ":=", ":+", "-", "##", "#", "%%", "%"):
            name, found, word = body.partition(mark)
            if found and name.replace("_", "a").isalnum():
                return self._modified(name, mark, self._double(word))
        return self._value(body)

    def _modified(self, name: str, mark: str, word: str) -> str:
        value = self._value(name)
        if mark in (":-", ":=", "-"):
            return value or word
        if mark == ":+":
            return word if value else ""
        ends = range(len(value) + 1)
        if mark.startswith("#"):
            order = reversed(ends) if mark == "##" else ends
            return next((value[n:] for n in order if fnmatch.fnmatchcase(value[:n], word)), value)
        order = ends if mark == "%%" else reversed(ends)
        return next((value[:n] for n in order if fnmatch.fnmatchcase(value[n:], word)), value)

    def _value(self, name: str) -> str:
        if name == "?":
            return str(self.status)
        if name == "$":
            return "1"
        if name == "#":
            return str(len(self.arguments))
        if name in ("@", "*"):
            return " ".join(self.arguments)
        if name.isdigit():
            index = int(name)
            return (
                (self.zero or self.name)
                if index == 0
                else self.arguments[index - 1]
                if index <= len(self.arguments)
                else ""
            )
        return self.environment().get(name, "")

    def _substitute(self, script: str) -> str:
        inner = Shell(
            self.machine, self.run_program, self.name, list(self.arguments), dict(self.variables), dict(self.functions)
        )
        self.status = inner.run(script)
        self.err += inner.err
        return inner.out.decode(errors="replace").rstrip("\n")

    def _arithmetic(self, text: str) -> int:
        return evaluate(self._double(text), self._value)
