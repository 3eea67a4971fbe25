"""Interpreter for parsed shell scripts: expansion, pipelines, redirections, control flow."""

from __future__ import annotations

import fnmatch
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from aiopslab.sim.world.userland import shell_parser as ast
from aiopslab.sim.world.userland.machine import Machine
from aiopslab.sim.world.userland.shell_parser import ShellSyntaxError, parse, skip_double, skip_parens

LOOP_ROUNDS_MAX = 2_000
Runner = Callable[[list[str], bytes, dict[str, str]], tuple[bytes, bytes, int]]


class Exit(Exception):
    """``exit N``."""

    def __init__(self, code: int) -> None:
        self.code = code


class _LoopJump(Exception):
    def __init__(self, kind: str) -> None:
        self.kind = kind


@dataclass
class Shell:
    """One ``sh``. ``run_program`` runs anything that is not built in."""

    machine: Machine
    run_program: Runner
    name: str = "sh"
    arguments: list[str] = field(default_factory=list)
    variables: dict[str, str] = field(default_factory=dict)
    status: int = 0
    zero: str = ""  # $0 when ``sh -c SCRIPT NAME`` gives one
    out: bytearray = field(default_factory=bytearray)
    err: bytearray = field(default_factory=bytearray)

    def run(self, script: str, stdin: bytes = b"") -> int:
        """Run a script; output collects in ``out`` and ``err``. Returns the exit code."""
        try:
            self._sequence(parse(script), stdin, self.out)
        except ShellSyntaxError as error:
            self._complain(str(error))
            self.status = 2
        except Exit as done:
            self.status = done.code
        return self.status

    def _complain(self, text: str) -> None:
        self.err += f"{self.name}: {text}\n".encode()

    def _environment(self) -> dict[str, str]:
        return {**self.machine.env, **self.variables}

    # control flow ---------------------------------------------------------------------------------------

    def _sequence(self, tree: ast.Sequence, stdin: bytes, out: bytearray) -> None:
        for item in tree.items:
            self._and_or(item, stdin, out)

    def _and_or(self, item: ast.AndOr, stdin: bytes, out: bytearray) -> None:
        for operator, pipeline in item.parts:
            if (operator == "&&" and self.status != 0) or (operator == "||" and self.status == 0):
                continue
            self._pipeline(pipeline, stdin, out)

    def _pipeline(self, pipeline: ast.Pipeline, stdin: bytes, out: bytearray) -> None:
        data = stdin
        last = len(pipeline.commands) - 1
        for index, command in enumerate(pipeline.commands):
            target = out if index == last else bytearray()
            self._command(command, data, target)
            data = bytes(target)
        if pipeline.negate:
            self.status = int(self.status == 0)

    def _command(self, command: ast.Command, stdin: bytes, out: bytearray) -> None:
        streams = self._redirected(command.redirects, stdin, out)
        if streams is None:
            self.status = 1
            return
        data, target, finish = streams
        if isinstance(command, ast.Simple):
            self._simple(command, data, target)
        elif isinstance(command, ast.Group):
            saved = dict(self.variables), self.machine.workdir
            self._sequence(command.body, data, target)
            if command.subshell:
                self.variables, self.machine.workdir = saved
        elif isinstance(command, ast.If):
            self._if(command, data, target)
        else:
            self._loop(command, data, target)
        finish()

    def _if(self, command: ast.If, stdin: bytes, out: bytearray) -> None:
        for condition, body in command.branches:
            self._sequence(condition, stdin, out)
            if self.status == 0:
                self._sequence(body, stdin, out)
                return
        self.status = 0
        if command.otherwise is not None:
            self._sequence(command.otherwise, stdin, out)

    def _loop(self, command: ast.For | ast.While, stdin: bytes, out: bytearray) -> None:
        status = 0
        for _ in self._rounds(command, stdin, out):
            try:
                self._sequence(command.body, stdin, out)
            except _LoopJump as jump:
                if jump.kind == "break":
                    break
            status = self.status
        self.status = status

    def _rounds(self, command: ast.For | ast.While, stdin: bytes, out: bytearray) -> Iterator[None]:
        if isinstance(command, ast.For):
            for word in [w for raw in command.words for w in self.expand(raw)]:
                self.variables[command.name] = word
                yield
            return
        for _ in range(LOOP_ROUNDS_MAX):
            self._sequence(command.condition, stdin, out)
            if (self.status == 0) == command.negate:
                return
            yield

    # simple commands ------------------------------------------------------------------------------------

    def _simple(self, command: ast.Simple, stdin: bytes, out: bytearray) -> None:
        argv = [word for raw in command.words for word in self.expand(raw)]
        values = {name: "".join(self.expand(value, split=False)) for name, value in command.assignments}
        if not argv:
            self.variables.update(values)
            self.status = 0
            return
        builtin = BUILTINS.get(argv[0])
        if builtin is not None:
            self.status = builtin(self, argv, out)
            return
        stdout, stderr, self.status = self.run_program(argv, stdin, {**self._environment(), **values})
        out += stdout
        self.err += stderr

    def _redirected(
        self, redirects: list[ast.Redirect], stdin: bytes, out: bytearray
    ) -> tuple[bytes, bytearray, Callable[[], None]] | None:
        """Where a command reads and writes, and what to do afterwards; None when a file cannot be opened."""
        data, target = stdin, out
        error_mark = len(self.err)
        error_to: str | None = None
        file_to: tuple[str, bool] | None = None
        for redirect in redirects:
            word = "".join(self.expand(redirect.target, split=False)) if redirect.kind != "<<" else redirect.target
            if redirect.kind == "<<":
                data = (word if redirect.quoted else self._double(word)).encode()
            elif redirect.kind == "<<<":
                data = (word + "\n").encode()
            elif redirect.kind == "<":
                content = self.machine.files.get(self.machine.resolved(word))
                if content is None:
                    self._complain(f"can't open {word}: no such file")
                    return None
                data = content
            elif redirect.kind == ">&":
                error_to = "stdout" if redirect.fd == 2 else error_to
                if redirect.fd == 1:
                    target = self.err
            elif redirect.fd == 2:
                error_to = word
            else:
                if word != "/dev/null" and not self.machine.writable(word):
                    self._complain(f"can't create {word}: {self._refusal()}")
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
        self.machine.files[full] = (self.machine.files.get(full, b"") if append else b"") + data

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
                fields[-1] += self._environment().get("HOME", "/")
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
        return self._environment().get(name, "")

    def _substitute(self, script: str) -> str:
        inner = Shell(self.machine, self.run_program, self.name, self.arguments, dict(self.variables))
        self.status = inner.run(script)
        self.err += inner.err
        return inner.out.decode(errors="replace").rstrip("\n")

    def _arithmetic(self, text: str) -> int:
        text = self._double(text)
        tokens = "".join(c if c in "+-*/%() <>=!" else f"{c}" for c in text)
        names = {n: self._value(n) or "0" for n in _identifiers(tokens)}
        for name in sorted(names, key=len, reverse=True):
            tokens = tokens.replace(name, names[name])
        return evaluate(tokens)


def _identifiers(text: str) -> set[str]:
    names, current = set(), ""
    for char in text + " ":
        if char.isalpha() or char == "_" or (current and char.isdigit()):
            current += char
        else:
            if current:
                names.add(current)
            current = ""
    return names


def evaluate(text: str) -> int:
    """Integer arithmetic with ``+ - * / %`` and parentheses; anything else is 0, as an unset name is."""
    import ast as python_ast
    import operator

    binary = {
        python_ast.Add: operator.add,
        python_ast.Sub: operator.sub,
        python_ast.Mult: operator.mul,
        python_ast.Div: operator.floordiv,
        python_ast.FloorDiv: operator.floordiv,
        python_ast.Mod: operator.mod,
    }

    def walk(node: python_ast.AST) -> int:
        if isinstance(node, python_ast.Constant) and isinstance(node.value, int):
            return node.value
        if isinstance(node, python_ast.UnaryOp):
            value = walk(node.operand)
            return -value if isinstance(node.op, python_ast.USub) else value
        if isinstance(node, python_ast.BinOp) and type(node.op) in binary:
            left, right = walk(node.left), walk(node.right)
            return int(binary[type(node.op)](left, right)) if right or not _divides(node.op) else 0
        return 0

    def _divides(op: python_ast.operator) -> bool:
        return isinstance(op, python_ast.Div | python_ast.Mod | python_ast.FloorDiv)

    try:
        return walk(python_ast.parse(text.strip() or "0", mode="eval").body)
    except SyntaxError:
        return 0


# builtins -----------------------------------------------------------------------------------------------


def _cd(shell: Shell, argv: list[str], out: bytearray) -> int:
    target = argv[1] if len(argv) > 1 else shell._environment().get("HOME", "/")
    if not shell.machine.is_dir(target):
        shell._complain(f"cd: can't cd to {target}: No such file or directory")
        return 2
    shell.machine.workdir = shell.machine.resolved(target)
    return 0


def _export(shell: Shell, argv: list[str], out: bytearray) -> int:
    for word in argv[1:]:
        name, equals, value = word.partition("=")
        if equals:
            shell.variables[name] = value
    return 0


def _exit(shell: Shell, argv: list[str], out: bytearray) -> int:
    raise Exit(int(argv[1]) & 255 if len(argv) > 1 and argv[1].isdigit() else shell.status)


def _jump(shell: Shell, argv: list[str], out: bytearray) -> int:
    raise _LoopJump(argv[0])


def _set(shell: Shell, argv: list[str], out: bytearray) -> int:
    return 0


def _unset(shell: Shell, argv: list[str], out: bytearray) -> int:
    for name in argv[1:]:
        shell.variables.pop(name, None)
    return 0


def _eval(shell: Shell, argv: list[str], out: bytearray) -> int:
    shell._sequence(parse(" ".join(argv[1:])), b"", out)
    return shell.status


BUILTINS: dict[str, Callable[[Shell, list[str], bytearray], int]] = {
    ":": _set,
    "break": _jump,
    "cd": _cd,
    "continue": _jump,
    "eval": _eval,
    "exit": _exit,
    "export": _export,
    "local": _export,
    "set": _set,
    "shift": _set,
    "trap": _set,
    "unset": _unset,
    "wait": _set,
}
