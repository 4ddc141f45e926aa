"""Syntax trees of source that nobody here wrote, and that may be hostile. Nothing of it runs."""

from __future__ import annotations

import ast
import threading
import warnings

TRIES = 3
_ALONE = threading.Lock()


def parse(text: str, filename: str = "<source>") -> ast.Module:
    """The tree of a module, without warnings. Raises SyntaxError, or ValueError for what nobody can parse.

    CPython before 3.13 counts the depth of all trees that are made at a time together: another thread's, which gets its
    turn while garbage is collected, makes it a SystemError. So they are made one after the other, and once more where
    a library made one meanwhile.
    """
    for left in reversed(range(TRIES)):
        try:
            with _ALONE, warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return ast.parse(text, filename=filename)
        except SystemError as error:
            if not left:
                raise ValueError(str(error)) from error
        except (RecursionError, MemoryError) as error:
            raise ValueError(f"it is nested too deeply ({type(error).__name__})") from error
    raise AssertionError("unreachable: the last try returns or raises")
