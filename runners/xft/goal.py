"""What is asked of the model, and from the times of requests to the figure that decides."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from runners.runner import Objective, UsageError
from runners.xft.options import Options
from spaces.units import parse_duration

_MOST_TOKENS = 1 << 20
_MOST_BATCH = 4096
# How hard a first token that comes too late counts against tokens a second: twice too late leaves an eighth.
_LATE = 3


@dataclass(frozen=True, slots=True)
class Request:
    """One request of the whole batch: milliseconds to its first token, and of each that follows (or their mean alone)."""

    first_ms: float | None
    next_ms: tuple[float, ...]

    @property
    def mean_next(self) -> float | None:
        return sum(self.next_ms) / len(self.next_ms) if self.next_ms else None


@dataclass(frozen=True, slots=True)
class Goal:
    """Requests of ``batch`` prompts, ``input`` and ``output`` tokens each, and what of them counts; ``ttft_ms`` is the service
    goal, None without one.
    """

    batch: int
    input: int
    output: int
    goal: str
    ttft_ms: float | None = None

    @classmethod
    def of(cls, options: Options) -> Goal:
        """Raises UsageError."""
        for name, value, most in (
            ("batch", options.batch, _MOST_BATCH),
            ("input-tokens", options.input_tokens, _MOST_TOKENS),
            ("output-tokens", options.output_tokens, _MOST_TOKENS),
        ):
            least = 2 if name == "output-tokens" else 1
            if not least <= value <= most:
                raise UsageError(name, value, f"must be a whole number from {least} to {most}")
        if not options.ttft:
            return cls(options.batch, options.input_tokens, options.output_tokens, options.goal)
        if options.goal == "first-token":
            raise UsageError("ttft", options.ttft, "is a goal of its own: leave out --goal first-token")
        try:
            limit = 1e3 * parse_duration(options.ttft)
        except ValueError as error:
            raise UsageError("ttft", options.ttft, str(error)) from None
        return cls(options.batch, options.input_tokens, options.output_tokens, "service", limit)

    @property
    def objective(self) -> Objective:
        return {
            "next-token": Objective("next_token_ms", "ms", maximise=False),
            "first-token": Objective("first_token_ms", "ms", maximise=False),
            "throughput": Objective("tokens_per_s", "tokens/s"),
            "service": Objective("goodput_tokens_per_s", "tokens/s"),
        }[self.goal]

    def of_request(self, request: Request) -> dict[str, float]:
        """The figures of one request, as far as it tells them.

        ``tokens_per_s`` counts all tokens over the whole time of the request, ``decode_tokens_per_s``, which is xFT's
        throughput, those after the first alone. ``goodput_tokens_per_s`` are tokens a second, fewer by the cube of how much
        later than the goal the first token comes.
        """
        found: dict[str, float] = {}
        first, following = request.first_ms, request.mean_next
        if first is not None:
            found["first_token_ms"] = first
        if following is not None:
            found["next_token_ms"] = following
            found["decode_tokens_per_s"] = 1e3 * self.batch / following
        if first is not None and following is not None:
            rate = 1e3 * self.batch * self.output / (first + following * (self.output - 1))
            found["tokens_per_s"] = rate
            if self.ttft_ms is not None:
                found["goodput_tokens_per_s"] = rate * min(1.0, self.ttft_ms / first) ** _LATE
        return found

    def metrics(self, requests: Sequence[Request]) -> dict[str, float]:
        """Medians over requests, which one that was held up doesn't move, and the ninth tenth of single tokens' times."""
        each = [self.of_request(request) for request in requests]
        found = {name: median(figures[name] for figures in each) for name in each[0]}
        singles = sorted(time for request in requests for time in request.next_ms if len(request.next_ms) > 1)
        if singles:
            found["next_token_p90_ms"] = singles[min(len(singles) - 1, int(0.9 * len(singles)))]
        return found

    def samples(self, requests: Sequence[Request]) -> tuple[float, ...]:
        """The objective from each request alone."""
        return tuple(self.of_request(request)[self.objective.metric] for request in requests)

    def missing(self, requests: Sequence[Request]) -> str:
        """Why the objective can't be had from ``requests``, "" where it can."""
        wanted = self.objective.metric
        if requests and all(wanted in self.of_request(request) for request in requests):
            return ""
        told = ", ".join(self.of_request(requests[0])) if requests else "nothing"
        return f"the program does not tell what {wanted} is made of; it tells {told or 'nothing'}"

    def late(self, requests: Sequence[Request]) -> str:
        """A sentence where the service goal is missed, "" where it is met or there is none."""
        if self.ttft_ms is None:
            return ""
        first = self.metrics(requests)["first_token_ms"]
        if first <= self.ttft_ms:
            return ""
        said = f"the first token comes after {first:.0f} ms and the goal is {self.ttft_ms:.0f} ms"
        return f"{said}: its tokens a second are discounted"
