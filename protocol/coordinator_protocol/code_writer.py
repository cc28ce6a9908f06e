"""Python source under construction: what decoder.py and encoder.py write their functions with."""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


class Source:
    """Lines of one function, and the objects they refer to by name."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._names: dict[str, Any] = {}
        self._depth = 0
        self._count = 0

    def line(self, text: str) -> None:
        """Add a line at the current depth."""
        self.lines.append("    " * self._depth + text)

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        """Add a line and indent what is added inside the context."""
        self.line(head)
        self._depth += 1
        before = len(self.lines)
        yield
        if len(self.lines) == before:
            self.line("pass")
        self._depth -= 1

    def local(self, hint: str) -> str:
        """A local name that nothing else has."""
        self._count += 1
        return f"{hint}_{self._count}"

    def refer(self, name: str, value: Any) -> str:
        """A global name for an object."""
        name = re.sub(r"\W", "_", name)
        if self._names.setdefault(name, value) is not value:
            return self.refer(f"{name}_", value)
        return name

    def compile(self, function: str, title: str) -> Callable[..., Any]:
        """The function of that name; `title` stands for the file in tracebacks."""
        namespace = dict(self._names)
        exec(compile("\n".join(self.lines), f"<{title}>", "exec"), namespace)  # noqa: S102 - our own
        made: Callable[..., Any] = namespace[function]
        return made
