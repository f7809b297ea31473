"""Fields of result files, read with one sentence for each that is missing or no number: file, field and what it holds."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_LARGEST = 64 << 20
_SHOWN = 60


class BadResult(ValueError):
    """A result file that can't be used; ``file`` and ``field`` say where, the message is for the user."""

    def __init__(self, file: Path, why: str, field: str = "") -> None:
        self.file, self.field, self.why = file, field, why
        super().__init__(f"{file}: {f'{field} ' if field else ''}{why}")


def read_json(file: Path) -> dict[str, Any]:
    """The object in ``file``. Raises BadResult."""
    try:
        if file.stat().st_size > _LARGEST:
            raise BadResult(file, f"is larger than {_LARGEST >> 20} MiB, which no result of DLIO is")
        text = file.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise BadResult(file, "is not text in UTF-8") from None
    except OSError as error:
        raise BadResult(file, f"can't be read: {error.strerror or error}") from None
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        where = f"line {error.lineno}: {error.msg}" if isinstance(error, json.JSONDecodeError) else "it is nested too deeply"
        raise BadResult(file, f"is not JSON ({where}); the run may not have ended") from None
    if not isinstance(found, dict):
        raise BadResult(file, f"holds {_kind(found)} where an object is expected")
    return found


class Fields:
    """An object of a result file. Each getter raises BadResult for what is missing or of another kind, by its full name."""

    def __init__(self, file: Path, data: Mapping[str, Any], name: str = "") -> None:
        self.file, self._data, self._name = file, data, name

    def __contains__(self, key: str) -> bool:
        return key in self._data

    def names(self) -> list[str]:
        return list(self._data)

    def full(self, key: str) -> str:
        return f"{self._name}.{key}" if self._name else key

    def _get(self, key: str) -> Any:
        if key not in self._data:
            raise BadResult(self.file, "is missing", self.full(key))
        return self._data[key]

    def object(self, key: str) -> Fields:
        value = self._get(key)
        if not isinstance(value, Mapping):
            raise self._bad(key, value, "an object")
        return Fields(self.file, value, self.full(key))

    def text(self, key: str, default: str | None = None) -> str:
        if default is not None and self._data.get(key) is None:
            return default
        value = self._get(key)
        if not isinstance(value, str):
            raise self._bad(key, value, "text")
        return value

    def number(self, key: str) -> float:
        """A finite number, which may come as text: reports of MLPerf write counts so."""
        return self._number(key, self._get(key))

    def count(self, key: str, lowest: int = 0) -> int:
        value = self.number(key)
        if value != int(value) or value < lowest:
            raise self._bad(key, self._get(key), f"a whole number from {lowest}")
        return int(value)

    def numbers(self, key: str) -> tuple[float, ...]:
        value = self._get(key)
        if not isinstance(value, list):
            raise self._bad(key, value, "a list of numbers")
        return tuple(self._number(f"{key}[{index}]", each) for index, each in enumerate(value))

    def flags(self, key: str) -> tuple[bool, ...]:
        """A list of true/false or 1/0, or one of these for all."""
        value = self._get(key)
        values = value if isinstance(value, list) else [value]
        found = []
        for each in values:
            if not isinstance(each, bool | int | float) or each not in (0, 1):
                raise self._bad(key, value, "a list of 0 and 1")
            found.append(bool(each))
        return tuple(found)

    def _number(self, key: str, value: Any) -> float:
        found = as_number(value)
        if found is None:
            raise self._bad(key, value, "a number")
        return found

    def _bad(self, key: str, value: Any, wanted: str) -> BadResult:
        return BadResult(self.file, f"is {_kind(value)} where {wanted} is expected", self.full(key))


def as_number(value: object) -> float | None:
    """A finite number from a number or from text; None for anything else. Truth values are no numbers."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        found = float(value)
    except (ValueError, OverflowError):
        return None
    return found if math.isfinite(found) else None


def _kind(value: object) -> str:
    if isinstance(value, Mapping):
        return "an object"
    if isinstance(value, list):
        return "a list"
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
