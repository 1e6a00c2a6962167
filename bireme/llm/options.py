"""How tokens are chosen and when a text ends: what a request may set."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bireme.core.base import errors
from bireme.llm.grammars import Grammar

MOST_LOGPROBS = 20  # alternatives that a step can tell of
MOST_STOPS = 64
LONGEST_STOP = 1024  # characters
MOST_BIASES, LARGEST_BIAS = 1024, 100


@dataclass(frozen=True, kw_only=True)
class SamplingOptions:
    """What a request asks for: how each token is chosen, and when the text ends.

    The penalties and filters apply in this order: bias, repetition, frequency and presence penalty, temperature, then top-k,
    top-p and min-p. Tokens that are as likely as the last one that a filter keeps are kept too.

    Args:
        max_tokens: Tokens that are generated at most. Default: 128.
        temperature: What logits are divided by; 0 takes the most likely token. Default: 0.0.
        top_k: How many of the most likely tokens may be drawn; 0 means all. Default: 0.
        top_p: Probability that the most likely tokens reach together which may be drawn. Default: 1.0.
        min_p: Probability, as a part of that of the most likely token, which a token needs. Default: 0.0.
        repetition_penalty: What positive logits of tokens in the prompt or the text are divided by, and negative ones
            multiplied by; 1 means none. Default: 1.0.
        presence_penalty: What is subtracted from logits of tokens that are in the text. Default: 0.0.
        frequency_penalty: What is subtracted from logits for each time that the token is in the text. Default: 0.0.
        logit_bias: What is added to logits of some tokens, in [-100, 100]: a dict, or pairs. Default: (), nothing.
        seed: Seed of the draws, in [0, 2**64). With the same seed, prompt and options, a model of the same engine
            settings gives the same tokens, whatever else runs beside it. None takes the next one of the engine.
            Default: None.
        stop: Strings that end the text; they are no part of it. One string means itself. Default: ().
        stop_ids: Tokens that end the text, besides those of the model. Default: ().
        ignore_eos: Whether the model's own end tokens are tokens like others. Default: False.
        logprobs: How many alternatives each event tells of, at most 20; None tells no logarithm of a probability.
            Default: None.
        grammar: What the text has to be. Default: None, anything.

    Raises:
        ValueError: If a number is out of its range.
        TypeError: If a value has another type.

    Examples:
        >>> bireme.llm.SamplingOptions(temperature=0.7, top_p=0.9, stop="END").stop
        ('END',)
    """

    max_tokens: int = 128
    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    logit_bias: Mapping[int, float] | Sequence[tuple[int, float]] = ()
    seed: int | None = None
    stop: str | Sequence[str] = ()
    stop_ids: Sequence[int] = ()
    ignore_eos: bool = False
    logprobs: int | None = None
    grammar: Grammar | None = None

    def __post_init__(self) -> None:
        self._integer("max_tokens", 1, 2**31 - 1)
        self._integer("top_k", 0, 2**31 - 1)
        self._number("temperature", 0, 100)
        self._number("top_p", 0, 1)
        self._number("min_p", 0, 1)
        self._number("repetition_penalty", 0.01, 100)
        self._number("presence_penalty", -100, 100)
        self._number("frequency_penalty", -100, 100)
        if self.seed is not None:
            self._integer("seed", 0, 2**64 - 1)
        if self.logprobs is not None:
            self._integer("logprobs", 0, MOST_LOGPROBS)
        if self.grammar is not None and not isinstance(self.grammar, Grammar):
            raise errors.bad(_at("grammar"), "a Grammar", self.grammar, kind=errors.ArgumentTypeError)
        object.__setattr__(self, "logit_bias", _biases(self.logit_bias))
        stop = (self.stop,) if isinstance(self.stop, str) else self.stop
        if not isinstance(stop, (list, tuple)) or not all(isinstance(s, str) for s in stop):
            raise errors.bad(_at("stop"), "a string or a list of strings", self.stop, kind=errors.ArgumentTypeError)
        if len(stop) > MOST_STOPS or not all(0 < len(s) <= LONGEST_STOP for s in stop):
            wanted = f"at most {MOST_STOPS} strings of 1 to {LONGEST_STOP} characters"
            raise errors.bad(_at("stop"), wanted, described=f"{len(stop)} of {sorted({len(s) for s in stop})}")
        ids = self.stop_ids
        if not isinstance(ids, (list, tuple)) or not all(isinstance(i, (int, np.integer)) and i >= 0 for i in ids):
            raise errors.bad(_at("stop_ids"), "a list of non-negative integers", ids)
        object.__setattr__(self, "stop", tuple(stop))
        object.__setattr__(self, "stop_ids", tuple(int(i) for i in ids))

    def _integer(self, name: str, least: int, most: int) -> None:
        given: Any = getattr(self, name)
        if isinstance(given, bool) or not isinstance(given, (int, np.integer)) or not least <= given <= most:
            raise errors.bad(_at(name), f"an integer in [{least}, {most}]", given, kind=errors.for_integer(given))

    def _number(self, name: str, least: float, most: float) -> None:
        given: Any = getattr(self, name)
        if (
            isinstance(given, bool)
            or not isinstance(given, (int, float, np.integer, np.floating))
            or not math.isfinite(given)
        ):
            raise errors.bad(_at(name), f"a number in [{least}, {most}]", given, kind=errors.for_number(given))
        if not least <= given <= most:
            raise errors.bad(_at(name), f"a number in [{least}, {most}]", given)

    @property
    def penalized(self) -> bool:
        """Whether tokens that were there before are less likely, or more."""
        return self.repetition_penalty != 1 or self.presence_penalty != 0 or self.frequency_penalty != 0

    @property
    def biases(self) -> tuple[tuple[int, float], ...]:
        """What is added to logits, as pairs."""
        return _biases(self.logit_bias)

    @property
    def drawn(self) -> bool:
        """Whether more is asked for than the most likely token of the model's own logits."""
        return self.temperature > 0 or self.penalized or bool(self.logit_bias)


def _biases(given: Any) -> tuple[tuple[int, float], ...]:
    """Pairs of a token and what is added to its logit."""
    try:
        pairs: list[tuple[Any, Any]] = [
            (token, by) for token, by in (given.items() if isinstance(given, Mapping) else given)
        ]
    except (TypeError, ValueError):
        raise errors.bad(_at("logit_bias"), "a dict of tokens and numbers", given) from None
    if len(pairs) > MOST_BIASES:
        raise errors.bad(_at("logit_bias"), f"at most {MOST_BIASES} tokens", described=f"{len(pairs)} of them")
    for token, by in pairs:
        if isinstance(token, bool) or not isinstance(token, (int, np.integer)) or token < 0:
            raise errors.bad(_at("logit_bias"), "tokens, non-negative integers", token)
        if (
            isinstance(by, bool)
            or not isinstance(by, (int, float, np.integer, np.floating))
            or not -LARGEST_BIAS <= by <= LARGEST_BIAS
        ):
            raise errors.bad(_at("logit_bias"), f"numbers in [-{LARGEST_BIAS}, {LARGEST_BIAS}]", by)
    return tuple(sorted({int(token): float(by) for token, by in pairs}.items()))


def _at(name: str) -> str:
    return f"SamplingOptions({name})"
