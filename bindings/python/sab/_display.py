"""How handles and reports are shown: in one line, as tables of HTML, and as plain values."""

from __future__ import annotations

import html
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

__all__: list[str] = []

Facts = list[tuple[str, str]]  # a name and a value each
_MOST_ELEMENTS = 8  # that one line shows of a list or an array


def public_name(value: object) -> str:
    """The name of a class as users of the package write it.

    >>> import sab
    >>> public_name(sab.Sizes([1]))
    'sab.Sizes'
    """
    kind = type(value)
    return f"{kind.__module__.split('._', 1)[0]}.{kind.__qualname__}"


def one_line(value: object, parts: Iterable[str]) -> str:
    """The repr of a handle: its class, and what is known of it."""
    return f"<{public_name(value)}: {', '.join(parts)}>"


def attributes_line(value: object) -> str:
    """The repr of an object whose public attributes say what it is."""
    named = [(name, each) for name, each in vars(value).items() if not name.startswith("_")]
    return one_line(value, (f"{name} {_short(each)}" for name, each in named))


def record_line(record: Any) -> str:
    """The repr of a named tuple in one line: long lists and arrays have only their length.

    >>> import sab
    >>> record_line(sab.Step(1, 3, list(range(100))))
    'Step(micro_batches=1, samples=3, total=<list of 100>)'
    """
    fields: Mapping[str, Any] = record._asdict()
    each = (f"{name}={_short(value)}" for name, value in fields.items())
    return f"{type(record).__name__}({', '.join(each)})"


def _short(value: Any) -> str:
    if isinstance(value, dict):
        each = (f"{key!r}: {_short(part)}" for key, part in _items(value))
        return f"{{{', '.join(each)}}}"
    shape = getattr(value, "shape", None)
    if shape is not None:
        kind = str(value.dtype).replace("torch.", "")
        count = " × ".join(map(str, shape))
        is_short = len(shape) == 1 and shape[0] <= _MOST_ELEMENTS
        return repr(value.tolist()) if is_short else f"<{count or 'one'} {kind}>"
    text = " ".join(repr(value).split())
    if isinstance(value, list) and len(_elements(value)) > _MOST_ELEMENTS:
        text = f"<list of {len(_elements(value)):,}>"
    return text


def _items(value: Any) -> Iterable[tuple[Any, Any]]:
    return value.items()  # type: ignore[no-any-return]


def _elements(value: Any) -> Sequence[Any]:
    return value  # type: ignore[no-any-return]


def plain(value: Any) -> Any:
    """A value as numbers, texts, lists and dictionaries, which json.dumps() takes. JSON has no
    infinity and no NaN: a number that is not finite becomes None.
    """
    if hasattr(value, "_asdict"):
        value = value._asdict()
    if isinstance(value, dict):
        return {str(key): plain(each) for key, each in _items(value)}
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    if isinstance(value, (list, tuple)):
        return list(map(plain, _elements(value)))
    return None if isinstance(value, float) and not math.isfinite(value) else value


def as_html(
    title: str,
    facts: Facts,
    *tables: tuple[Sequence[str], Sequence[Sequence[str]]],
) -> str:
    """A title, a table of facts and tables of a header and rows, for notebooks. Those without rows
    are left out. All texts are escaped.
    """
    parts = [f"<div><p><b>{html.escape(title)}</b></p>"]
    if facts:
        cells = (
            f'<tr><th scope="row" style="text-align:left">{html.escape(name)}</th>'
            f'<td style="text-align:right">{html.escape(value)}</td></tr>'
            for name, value in facts
        )
        parts.append(f"<table><tbody>{''.join(cells)}</tbody></table>")
    for header, rows in tables:
        if rows:
            parts.append(f"<table><thead>{_row('th', header)}</thead><tbody>")
            parts += [_row("td", row) for row in rows]
            parts.append("</tbody></table>")
    return "".join([*parts, "</div>"])


def _row(kind: str, cells: Iterable[str]) -> str:
    each = (f'<{kind} style="text-align:right">{html.escape(cell)}</{kind}>' for cell in cells)
    return f"<tr>{''.join(each)}</tr>"
