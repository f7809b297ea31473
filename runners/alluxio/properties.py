"""Java's .properties files as data: read as java.util.Properties reads them, edited so that all else stays byte for byte.

Text is what ISO-8859-1 makes of a file's bytes, one character a byte, as Java takes it. A logical line is an entry's key and
value with the natural lines that a backslash continues it over.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

_BLANK = " \t\f"
_END = "\r\n"
_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_WRITTEN = {"\t": "\\t", "\n": "\\n", "\r": "\\r", "\f": "\\f", "\\": "\\\\"}
_HEX = re.compile(r"[0-9a-fA-F]{4}")


@dataclass(frozen=True, slots=True)
class Entry:
    """A key and its value as Java has them, and where they are written.

    ``line`` to ``last_line`` count natural lines from 1; text[start:end] is all of these with the end of the last one.
    text[key_start:key_end] and text[value_start:value_end] are the written forms. ``broken`` is why Java can't read the
    entry, and with it the whole file; "" where it can.
    """

    key: str
    value: str
    line: int
    last_line: int
    start: int
    end: int
    key_start: int
    key_end: int
    value_start: int
    value_end: int
    broken: str = ""


@dataclass(frozen=True, slots=True)
class _Line:
    """A logical line: its characters and the offset of each in the text, without the backslashes that continue it.

    ``open``: the text ends in it, and after a line end it would go on.
    """

    letters: str
    places: tuple[int, ...]
    start: int
    end: int
    content_end: int
    open: bool


def entries(text: str) -> list[Entry]:
    """All entries in order, also those that a later one of the same key replaces.

    The empty entry that Java sees in a lone backslash at the very end of a file is left out.
    """
    found, line, counted = [], 1, 0
    for logical in _logical_lines(text):
        line += _ends(text, counted, logical.start)
        lines = _ends(text, logical.start, logical.content_end)
        found.append(_entry(logical, line, line + lines))
        counted = logical.start
    return found


def last(text: str) -> dict[str, Entry]:
    """By key, the entry that counts. Keys that Java can't read are not among them."""
    return {entry.key: entry for entry in entries(text) if not entry.broken}


def closed(text: str) -> str:
    """``text`` with as many line ends behind it as it takes for what follows to stand on a line of its own."""
    if not text:
        return text
    ends = line_end(text)
    if not text.endswith(("\n", "\r")):
        text += ends
    if not any(logical.open for logical in _logical_lines(text)):
        return text
    # Behind a lone \r a \n would be the other half of the same line end.
    return text + ("\r" if text.endswith("\r") else ends)


def line_end(text: str) -> str:
    """What ends the lines of ``text``."""
    if "\r\n" in text:
        return "\r\n"
    return "\r" if "\r" in text and "\n" not in text else "\n"


def written(key: str, value: str) -> str:
    """``key=value`` in the one spelling that every reader takes alike: ASCII, with escapes, on one line."""
    return f"{escaped(key, is_key=True)}={escaped(value)}"


def escaped(text: str, *, is_key: bool = False) -> str:
    """A key or value as it must be written for Java to get ``text``."""
    parts = []
    for place, letter in enumerate(text):
        if letter in _WRITTEN:
            parts.append(_WRITTEN[letter])
        elif letter == " ":
            parts.append("\\ " if is_key or place == 0 else " ")
        elif is_key and letter in "=:#!":
            parts.append("\\" + letter)
        elif " " <= letter <= "~":
            parts.append(letter)
        else:
            parts += [f"\\u{unit:04x}" for unit in _units(letter)]
    return "".join(parts)


def with_value(text: str, entry: Entry, value: str) -> str:
    """``text`` with another value of ``entry``; an entry without a separator gets one.

    So does one that only blanks separate, if the value begins with what Java would take for the separator.
    """
    between = text[entry.key_end : entry.value_start]
    lacks = not _separated(entry) or (value[:1] in ("=", ":") and not any(letter in between for letter in "=:"))
    separator = "=" if lacks else ""
    return f"{text[: entry.value_start]}{separator}{escaped(value)}{text[entry.value_end :]}"


def with_key(text: str, entry: Entry, key: str) -> str:
    return f"{text[: entry.key_start]}{escaped(key, is_key=True)}{text[entry.key_end :]}"


def commented(text: str, dead: Iterable[Entry], mark: str) -> str:
    """``text`` with those entries turned into comments: ``mark``, which begins with #, before each of their lines."""
    for entry in sorted(dead, key=lambda each: each.start, reverse=True):
        lines = re.findall(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+\Z", text[entry.start : entry.end])
        text = text[: entry.start] + "".join(mark + line for line in lines) + text[entry.end :]
    return text


def uncommented(text: str, mark: str) -> str:
    """``text`` with ``commented`` undone."""
    return re.sub(rf"(?:(?<=[\r\n])|\A){re.escape(mark)}", "", text)


def _logical_lines(text: str) -> Iterator[_Line]:
    """The lines that hold an entry, by the rules of Properties.load; comments and blank lines are between them."""
    place, size = 0, len(text)
    while place < size:
        letters: list[str] = []
        places: list[int] = []
        start = place
        skip, appended, backslash = True, False, False
        ended = False
        while place < size and not ended:
            letter = text[place]
            if skip:
                if letter in _BLANK:
                    place += 1
                    continue
                if not appended and letter in _END:
                    place += 1
                    start = place
                    continue
                skip = appended = False
            if not letters and letter in "#!":
                place = _after(text, place)
                start, skip = place, True
                continue
            if letter not in _END:
                letters.append(letter)
                places.append(place)
                backslash = letter == "\\" and not backslash
                place += 1
                continue
            if not letters:
                place += 1
                start, skip = place, True
                continue
            if backslash:
                letters.pop()
                places.pop()
                place = _after(text, place)
                skip, appended, backslash = True, True, False
                if not letters:
                    start = place
            else:
                ended = True
        if backslash and not ended and letters:
            letters.pop()
            places.pop()
        content_end = place
        if ended:
            place = _after(text, place)
        if letters:
            yield _Line("".join(letters), tuple(places), start, place, content_end, appended)


def _after(text: str, place: int) -> int:
    """The offset behind the next line end."""
    while place < len(text) and text[place] not in _END:
        place += 1
    return min(len(text), place + (2 if text.startswith("\r\n", place) else 1))


def _ends(text: str, start: int, end: int) -> int:
    """Line ends in text[start:end]."""
    return len(re.findall(r"\r\n|\r|\n", text[start:end]))


def _entry(logical: _Line, line: int, last_line: int) -> Entry:
    letters = logical.letters
    size = len(letters)
    key_end, backslash = 0, False
    while key_end < size:
        letter = letters[key_end]
        if not backslash and (letter in "=:" or letter in _BLANK):
            break
        backslash = letter == "\\" and not backslash
        key_end += 1
    value_start, separated = key_end, False
    while value_start < size:
        letter = letters[value_start]
        if letter not in _BLANK:
            if separated or letter not in "=:":
                break
            separated = True
        value_start += 1

    def offset(place: int) -> int:
        if place < size:
            return logical.places[place]
        return logical.places[-1] + 1 if size else logical.start

    key, wrong_key = _converted(letters[:key_end])
    value, wrong_value = _converted(letters[value_start:])
    return Entry(
        key,
        value,
        line,
        last_line,
        logical.start,
        logical.end,
        offset(0),
        offset(key_end - 1) + 1 if key_end else offset(0),
        offset(value_start),
        offset(size),
        wrong_key or wrong_value,
    )


def _separated(entry: Entry) -> bool:
    return entry.value_start > entry.key_end


def _converted(raw: str) -> tuple[str, str]:
    """What Java makes of a written key or value, and why it can't, "" where it can."""
    if "\\" not in raw:
        return raw, ""
    parts: list[str] = []
    place = 0
    while place < len(raw):
        letter = raw[place]
        place += 1
        if letter != "\\" or place == len(raw):
            parts.append(letter)
            continue
        letter = raw[place]
        place += 1
        if letter != "u":
            parts.append(_ESCAPES.get(letter, letter))
        elif _HEX.fullmatch(raw[place : place + 4]):
            parts.append(chr(int(raw[place : place + 4], 16)))
            place += 4
        else:
            return "", f"\\u{raw[place : place + 4]} is no escape: four hexadecimal digits must follow \\u"
    whole = "".join(parts)
    # Java's characters are UTF-16 units; two of them may be one character.
    return whole.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass"), ""


def _units(letter: str) -> list[int]:
    data = letter.encode("utf-16-be", "surrogatepass")
    return [int.from_bytes(data[place : place + 2], "big") for place in range(0, len(data), 2)]
