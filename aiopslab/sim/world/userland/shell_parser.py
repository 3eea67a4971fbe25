"""Parser for the part of POSIX shell that people type into ``sh -c``.

Lists (``;``, newline, ``&``), ``&&``/``||``, pipelines, ``!``, redirections, here-documents, subshells, ``for``,
``while``/``until``, ``if``, ``case``, functions; words keep their quoting for the expander. Errors read like dash's.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from aiopslab.sim.world.userland.shell_tree import (
    AndOr,
    Case,
    Command,
    For,
    Function,
    Group,
    If,
    Pipeline,
    Redirect,
    Sequence,
    Simple,
    While,
)

OPERATORS = ("&&", "||", ";;", ">>", "<<<", "<<", ">&", "<&", "2>&1", ";", "|", "&", "(", ")", ">", "<", "\n")

class ShellSyntaxError(Exception):
    """``sh: syntax error: ...``; the text is what follows ``sh: ``."""


@dataclass(frozen=True, slots=True)
class Token:
    """A word (raw, with its quotes) or an operator. ``fd`` is the number glued before ``>`` or ``<``."""

    text: str
    is_operator: bool = False
    fd: int | None = None


def parse(text: str) -> Sequence:
    """Parse a script. Raises ShellSyntaxError."""
    parser = _Parser(tokenize(text))
    tree = parser.sequence(())
    if parser.peek() is not None:
        parser.unexpected()
    return tree


def tokenize(text: str) -> list[Token]:
    """Split into words and operators; here-document bodies become the word after ``<<``."""
    return _Lexer(text).run()


class _Lexer:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.tokens: list[Token] = []
        self.pending: list[tuple[int, str, bool]] = []  # (token index, delimiter, quoted)

    def run(self) -> list[Token]:
        while self.at < len(self.text):
            char = self.text[self.at]
            if char in " \t":
                self.at += 1
            elif char == "\\" and self.text[self.at + 1 : self.at + 2] == "\n":
                self.at += 2
            elif char == "#":
                end = self.text.find("\n", self.at)
                self.at = len(self.text) if end < 0 else end
            elif not self._operator():
                self._word()
        return self.tokens

    def _operator(self) -> bool:
        rest = self.text[self.at :]
        fd = None
        if rest[:1].isdigit() and rest[1:2] in (">", "<"):
            fd, rest = int(rest[0]), rest[1:]
        for operator in OPERATORS:
            if rest.startswith(operator):
                self.at += len(operator) + (fd is not None)
                self.tokens.append(Token(operator, True, fd))
                if operator == "<<":
                    self._heredoc_start()
                elif operator == "\n":
                    self._heredoc_bodies()
                return True
        return False

    def _word(self) -> None:
        start = self.at
        while self.at < len(self.text):
            char = self.text[self.at]
            if char in " \t\n;|&()<>":
                break
            self._skip(char)
        self.tokens.append(Token(self.text[start : self.at]))

    def _skip(self, char: str) -> None:
        """Move over one character, or over a whole quoted or substituted part."""
        if char == "\\":
            self.at += 2
        elif char == "'":
            self._until("'", self.at + 1)
        elif char == '"':
            self.at = skip_double(self.text, self.at)
        elif self.text.startswith("$(", self.at):
            self.at = skip_parens(self.text, self.at + 1)
        elif self.text.startswith("${", self.at):
            self._until("}", self.at + 2)
        elif char == "`":
            self._until("`", self.at + 1)
        else:
            self.at += 1

    def _until(self, mark: str, start: int) -> None:
        end = self.text.find(mark, start)
        if end < 0:
            raise ShellSyntaxError("syntax error: unterminated quoted string")
        self.at = end + 1

    def _heredoc_start(self) -> None:
        while self.text[self.at : self.at + 1] in ("-", " "):
            self.at += 1
        start = self.at
        while self.at < len(self.text) and self.text[self.at] not in " \t\n;|&()<>":
            self.at += 1
        raw = self.text[start : self.at]
        delimiter = raw.strip("'\"\\")
        self.tokens.append(Token(""))
        self.pending.append((len(self.tokens) - 1, delimiter, raw != delimiter))

    def _heredoc_bodies(self) -> None:
        for index, delimiter, quoted in self.pending:
            lines = []
            while self.at < len(self.text):
                end = self.text.find("\n", self.at)
                end = len(self.text) if end < 0 else end
                line = self.text[self.at : end]
                self.at = end + 1
                if line.strip("\t") == delimiter:
                    break
                lines.append(line + "\n")
            mark = "'" if quoted else '"'
            self.tokens[index] = Token(mark + "".join(lines))
        self.pending.clear()


def skip_double(text: str, at: int) -> int:
    """Index after the double-quoted string that starts at ``at``."""
    at += 1
    while at < len(text) and text[at] != '"':
        if text[at] == "\\":
            at += 2
        elif text.startswith("$(", at):
            at = skip_parens(text, at + 1)
        else:
            at += 1
    if at >= len(text):
        raise ShellSyntaxError("syntax error: unterminated quoted string")
    return at + 1


def skip_parens(text: str, at: int) -> int:
    """Index after the parenthesis that closes the one at ``at``."""
    depth = 0
    while at < len(text):
        char = text[at]
        if char == "'":
            end = text.find("'", at + 1)
            at = len(text) if end < 0 else end
        elif char == '"':
            at = skip_double(text, at) - 1
        elif char == "(":
            depth += 1
        elif char == ")":
            depth -= 1
            if depth == 0:
                return at + 1
        at += 1
    raise ShellSyntaxError("syntax error: unexpected end of file")


class _Parser:
    def __init__(self, tokens: list[Token]) -> None:
        self.tokens = tokens
        self.at = 0

    def peek(self) -> Token | None:
        return self.tokens[self.at] if self.at < len(self.tokens) else None

    def take(self) -> Token:
        token = self.peek()
        if token is None:
            raise ShellSyntaxError("syntax error: unexpected end of file")
        self.at += 1
        return token

    def unexpected(self) -> None:
        token = self.peek()
        if token is None:
            raise ShellSyntaxError("syntax error: unexpected end of file")
        shown = "newline" if token.text == "\n" else f'"{token.text}"'
        raise ShellSyntaxError(f"syntax error: unexpected {shown}")

    def sequence(self, ends: tuple[str, ...]) -> Sequence:
        items: list[AndOr] = []
        while True:
            while (token := self.peek()) is not None and token.is_operator and token.text in (";", "\n"):
                self.at += 1
            if token is None or token.text in ends or (token.is_operator and token.text in (")", ";;")):
                return Sequence(items)
            items.append(self.and_or())
            token = self.peek()
            if token is not None and token.is_operator and token.text == "&":
                items[-1].background = True
                self.at += 1

    def and_or(self) -> AndOr:
        parts = [("", self.pipeline())]
        while (token := self.peek()) is not None and token.is_operator and token.text in ("&&", "||"):
            self.at += 1
            self.newlines()
            parts.append((token.text, self.pipeline()))
        return AndOr(parts)

    def newlines(self) -> None:
        while (token := self.peek()) is not None and token.is_operator and token.text == "\n":
            self.at += 1

    def pipeline(self) -> Pipeline:
        negate = False
        token = self.peek()
        if token is not None and token.text == "!" and not token.is_operator:
            negate, self.at = True, self.at + 1
        commands = [self.command()]
        while (token := self.peek()) is not None and token.is_operator and token.text == "|":
            self.at += 1
            self.newlines()
            commands.append(self.command())
        return Pipeline(commands, negate)

    def command(self) -> Command:
        token = self.peek()
        if token is None:
            self.unexpected()
            raise AssertionError
        compound: dict[str, Callable[[], Command]] = {
            "if": self.if_,
            "for": self.for_,
            "while": self.while_,
            "until": self.while_,
            "{": self.brace,
            "case": self.case,
        }
        if token.is_operator and token.text == "(":
            found: Command = self.subshell()
        elif not token.is_operator and token.text in compound:
            found = compound[token.text]()
        elif [t.text for t in self.tokens[self.at + 1 : self.at + 3] if t.is_operator] == ["(", ")"]:
            return self.function()
        else:
            return self.simple()
        while (redirect := self.redirect()) is not None:
            found.redirects.append(redirect)
        return found

    def simple(self) -> Simple:
        command = Simple()
        while True:
            if (redirect := self.redirect()) is not None:
                command.redirects.append(redirect)
                continue
            token = self.peek()
            if token is None or token.is_operator:
                break
            self.at += 1
            name, equals, value = token.text.partition("=")
            if equals and not command.words and name.isidentifier():
                command.assignments.append((name, value))
            else:
                command.words.append(token.text)
        if not (command.words or command.assignments or command.redirects):
            self.unexpected()
        return command

    def redirect(self) -> Redirect | None:
        token = self.peek()
        if token is None or not token.is_operator:
            return None
        if token.text == "2>&1":
            self.at += 1
            return Redirect(2, ">&", "1")
        if token.text not in (">", ">>", "<", ">&", "<&", "<<", "<<<"):
            return None
        self.at += 1
        target = self.take()
        if target.is_operator:
            self.at -= 1
            self.unexpected()
        fd = token.fd if token.fd is not None else (0 if token.text.startswith("<") else 1)
        if token.text == "<<":
            return Redirect(fd, "<<", target.text[1:], quoted=target.text.startswith("'"))
        if token.text == "<<<":
            return Redirect(fd, "<<<", target.text)
        return Redirect(fd, token.text, target.text)

    def expect(self, word: str) -> None:
        token = self.peek()
        if token is None or token.text != word:
            self.unexpected()
        self.at += 1

    def subshell(self) -> Group:
        self.at += 1
        body = self.sequence(())
        self.expect(")")
        return Group(body, True)

    def brace(self) -> Group:
        self.at += 1
        body = self.sequence(("}",))
        self.expect("}")
        return Group(body, False)

    def for_(self) -> For:
        self.at += 1
        name = self.take().text
        self.newlines()
        words: list[str] = []
        token = self.peek()
        if token is not None and token.text == "in":
            self.at += 1
            while (token := self.peek()) is not None and not token.is_operator:
                words.append(self.take().text)
        self._separator()
        self.expect("do")
        body = self.sequence(("done",))
        self.expect("done")
        return For(name, words, body)

    def while_(self) -> While:
        negate = self.take().text == "until"
        condition = self.sequence(("do",))
        self.expect("do")
        body = self.sequence(("done",))
        self.expect("done")
        return While(condition, body, negate)

    def if_(self) -> If:
        self.at += 1
        branches: list[tuple[Sequence, Sequence]] = []
        otherwise = None
        while True:
            condition = self.sequence(("then",))
            self.expect("then")
            branches.append((condition, self.sequence(("elif", "else", "fi"))))
            word = self.take().text
            if word == "else":
                otherwise = self.sequence(("fi",))
                self.expect("fi")
            if word != "elif":
                return If(branches, otherwise)

    def case(self) -> Case:
        self.at += 1
        word = self.take().text
        self.newlines()
        self.expect("in")
        self.newlines()
        branches: list[tuple[list[str], Sequence]] = []
        while (token := self.peek()) is not None and token.text != "esac":
            self.at += token.text == "("
            patterns = [self.take().text]
            while (token := self.peek()) is not None and token.text == "|":
                self.at += 1
                patterns.append(self.take().text)
            self.expect(")")
            branches.append((patterns, self.sequence(("esac",))))
            token = self.peek()
            self.at += token is not None and token.text == ";;"
            self.newlines()
        self.expect("esac")
        return Case(word, branches)

    def function(self) -> Function:
        name = self.take().text
        if not name.isidentifier():
            self.unexpected()
        self.at += 2
        self.newlines()
        body = self.command()
        return Function(name, Sequence([AndOr([("", Pipeline([body]))])]))

    def _separator(self) -> None:
        while (token := self.peek()) is not None and token.is_operator and token.text in (";", "\n"):
            self.at += 1
