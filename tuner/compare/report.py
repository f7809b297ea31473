"""The outcome of a comparison in words: the table, what goes with it, and the Markdown page that is kept."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping

from spaces.space import Config, Space
from spaces.units import format_duration
from tuner.compare.result import Result, Row, as_printed
from tuner.verdict import Comparison

TITLES = ("", "time", "written", "tried", "promised", "true", "of the baseline", "ours against it", "pick")


def table(result: Result, space: Space) -> list[tuple[str, ...]]:
    """Rows of TITLES: ours, the others, what they give as printed, and the baseline."""
    lines: list[tuple[str, ...]] = []
    for row in result.rows:
        cost = (format_duration(row.seconds), size(row.bytes_written), str(row.tried), promised(row, result))
        if row.mend or row.config is None:
            why = "not available" if row.mend else "no pick"
            lines.append((row.name, *(("-",) * 3 if row.mend else cost[:3]), "-", "-", "-", "-", why))
        else:
            name = row.name if row.finished else f"{row.name} (unfinished)"
            lines.append((name, *cost, *standing(result, row.name), changes(row.config, result.baseline, space)))
        pasted = row.pasted
        if pasted is not None and pasted.config is not None:
            name = as_printed(row.name)
            lines.append(
                (f"  {name}", "", "", "", "", *standing(result, name), changes(pasted.config, result.baseline, space))
            )
    lines.append(("baseline", "", "", "", "", *standing(result, "baseline"), short(result.baseline, space)))
    return lines


def sentences(result: Result, space: Space) -> list[str]:
    """What the table can't say: how each ended, what its answer gives as printed, what ours cost against it."""
    found = []
    ours = next((row for row in result.rows if row.name == "ours"), None)
    for row in result.rows:
        found.append(f"{row.name}: {row.note}." + (f" Mend: {row.mend}" if row.mend else ""))
        if row.pasted is not None:
            found.append(f"{as_printed(row.name)}: {_pasted(row, result, space)}.")
        if ours is not None and row is not ours and row.config is not None and row.seconds > 0:
            told = result.standings.get(row.name)
            parts = [f"{share(ours.seconds, row.seconds)} its time"]
            if row.bytes_written:
                parts.append(f"{share(ours.bytes_written, row.bytes_written)} its bytes")
            if told is not None:
                parts.append(f"settings compared: {told.ours.sentence}")
            found.append(f"ours against {row.name}: {', '.join(parts)}.")
    return found


def share(ours: float, theirs: float) -> str:
    """ "7.1 % of", "1.3 times"."""
    return f"{ours / theirs * 100:.3g} % of" if ours <= theirs else f"{ours / theirs:.2g} times"


def _pasted(row: Row, result: Result, space: Space) -> str:
    pasted = row.pasted
    assert pasted is not None
    if pasted.config is None:
        return f"does not load ({pasted.problem})"
    words = "loads" if pasted.loads else f"does not load ({pasted.problem})"
    if not pasted.loads:
        words += f"; with {pasted.mended} mended by hand it does"
    lost = {} if row.config is None else {k: v for k, v in row.config.items() if pasted.config.get(k) != v}
    if lost:
        kept = ", ".join(
            f"{name} is {space[name].show(pasted.config[name])}, not {space[name].show(lost[name])}" for name in lost
        )
        words += f", and {kept}"
    told = result.standings.get(as_printed(row.name))
    if told is not None and told.value is not None:
        words += f": {told.value.value:.3g} {result.unit}"
        if told.gain.gain is not None:
            words += f", {told.gain.gain.ratio:.2f}x the baseline"
    return words


def markdown(result: Result, space: Space, command: str) -> str:
    """The page that is kept."""
    when = time.strftime("%Y-%m-%d %H:%M")
    state = f"{result.rounds} shuffled rounds" if result.rounds else "not raced yet: the comparison did not get that far"
    lines = [
        f"# {result.target}: our search against others",
        "",
        f"{when}, engine {result.engine}, study `{result.study}`. True figures: {state}, all settings interleaved, compared",
        f"inside a round; {result.metric} in {result.unit} with its interval. Promised: the figure that each chose by.",
        "",
        f"    {command}",
        "",
        _line(TITLES),
        _line(["---"] * len(TITLES)),
        *(_line(cells) for cells in table(result, space)),
        "",
        *(f"- {_escaped(sentence)}" for sentence in sentences(result, space)),
        "",
        "Full settings:",
        "",
        *(f"- {row.name}: `{space.show(row.config)}`" for row in result.rows if row.config is not None),
        f"- baseline: `{space.show(result.baseline)}`",
    ]
    for row in result.rows:
        if row.printed:
            lines += ["", f"{row.name} printed:", "", *(f"    {line}" for line in row.printed.splitlines())]
    lines += ["", "Machine:", "", *(f"- {name}: {_escaped(str(value))}" for name, value in result.machine.items())]
    return "\n".join(lines) + "\n"


def standing(result: Result, name: str) -> tuple[str, str, str]:
    """The true figure, its ratio to the baseline, and ours against it; dashes before the race."""
    told = result.standings.get(name)
    if told is None:
        return "-", "-", "-"
    if told.value is None:
        return f"fails: {told.failure}", "-", "-"
    value = f"{told.value.value:.3g} {_interval(told.value.low, told.value.high)}"
    against = "" if name == "ours" else _ratio(told.ours)
    return value, "" if name == "baseline" else _ratio(told.gain), against


def _ratio(comparison: Comparison) -> str:
    """ "1.31x (1.24 to 1.39) better", "same setting"."""
    gain = comparison.gain
    if gain is None:
        return "-"
    if gain.low == gain.high == 1:
        return "same setting"
    return f"{gain.ratio:.2f}x {_interval(gain.low, gain.high)} {comparison.verdict}"


def _interval(low: float, high: float) -> str:
    if low <= 0 or not math.isfinite(high):
        return "(too few rounds)"
    return f"({low:.3g} to {high:.3g})"


def promised(row: Row, result: Result) -> str:
    if result.metric in row.promised:
        return f"{row.promised[result.metric]:.3g}"
    return ", ".join(f"{name.removesuffix('_gbs')} {value:.3g}" for name, value in row.promised.items()) or "-"


def changes(config: Config, baseline: Mapping[str, object], space: Space) -> str:
    """``config`` by what differs from the baseline."""
    parts = [f"{k.option}={k.show(config[k.name])}" for k in space.knobs if config[k.name] != baseline[k.name]]
    return " ".join(parts) or "the baseline's own"


def short(config: Config, space: Space) -> str:
    return " ".join(f"{knob.option}={knob.show(config[knob.name])}" for knob in space.knobs)


def size(count: int) -> str:
    """Bytes as disks are sold, in powers of 1000."""
    return f"{count / 1e9:.2f} GB" if count >= 1e7 else f"{count / 1e6:.1f} MB" if count else "0"


def _line(cells: tuple[str, ...] | list[str]) -> str:
    return f"| {' | '.join(_escaped(cell) for cell in cells)} |"


def _escaped(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
