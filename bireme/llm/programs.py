"""The programs that an engine runs: a decode step for all rows, a chunk of one prompt, and the arrays they hand on.

A row of the decode step is described by integers: the token, or -1 for the one that the last step chose; its place, or -1
where the row is empty; seed, number of the draw, top-k, whether it counts; and the pages of its text.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from bireme.core.base import device as devices
from bireme.core.base import dtype as dtypes
from bireme.core.base import shutdown
from bireme.core.program.building import suspended
from bireme.core.record.capture import capture
from bireme.core.tensor.grad_mode import no_grad
from bireme.core.tensor.tensor import Tensor, wrap
from bireme.llm.network import Network
from bireme.llm.options import MOST_LOGPROBS
from bireme.ops import (
    arange,
    concat,
    drawn_token,
    full_like,
    likeliest_token,
    likeliest_tokens,
    maximum,
    paged_attention,
    put_row,
    where,
    write_pages,
    zeros,
)

TOKEN, PLACE, SEED, DRAW, TOP_K, COUNTS, TABLE = 0, 1, 2, 4, 5, 6, 7  # columns of what describes rows
NARROWEST = 8  # pages of a table, where tables are as wide as the longest text


class Programs:
    """Compiled programs over the arrays of a cache, which are handed from one to the next."""

    def __init__(self, network: Network, rows: int, length: int, pages: int, page: int, dtype: Any):
        self.network, self.rows, self.length, self.page = network, rows, length, page
        self.device = devices.current()
        self.width = -(-length // page)  # of a table
        config = network.config
        shape = [pages, 2 * config.shared_heads, page, config.head_width]
        self._dtype = dtype
        self._pools = [self._zeros(shape, dtype) for _ in range(config.layers)]
        self._last = self._zeros([rows], dtypes.int32)
        self._counts: Any = None  # of tokens; made when a row needs them
        self._compiled: dict[tuple, Callable[[list], list]] = {}

    @property
    def compiled(self) -> int:
        """Programs so far."""
        return len(self._compiled)

    def _zeros(self, shape: list[int], dtype: Any) -> Any:
        with no_grad():
            return zeros(shape, dtype).__jax_array__()

    def _program(self, key: tuple, inputs: list[tuple[tuple, Any]], body: Callable, donate: list[int]) -> Callable:
        """A program, from the cache or captured now: `body` takes tensors and gives a list of tensors."""
        if key not in self._compiled:
            with suspended(), no_grad(), capture() as captured:
                given = [wrap(captured.input(tuple(shape), dtype)) for shape, dtype in inputs]
                made = captured.finish([t._value for t in body(*given)])
            self._compiled[key] = made.compiled(donate)
        return self._compiled[key]

    def _attend(self, pools: list[Tensor], tables: Tensor, places: Tensor) -> Callable:
        config = self.network.config

        def attend(number: int, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
            pools[number] = write_pages(pools[number], concat([key, value], 2), tables, places)
            scale = config.head_width**-0.5
            return paged_attention(query, pools[number], tables, places, scale, config.windows[number])

        return attend

    def _pool_inputs(self) -> list[tuple[tuple, Any]]:
        return [(tuple(pool.shape), self._dtype) for pool in self._pools]

    # ------------------------------------------------------------ prompts

    def fill(self, size: int, described: np.ndarray) -> None:
        """Keys and values of a chunk of a prompt, [tokens, start, count, table], into its pages."""
        layers = len(self._pools)

        def body(*given: Tensor) -> list[Tensor]:
            pools, numbers = list(given[:layers]), given[layers]
            tokens, start, count = numbers[:size], numbers[size], numbers[size + 1]
            step = arange(size, dtype="int32")
            places = where(step < count, start + step, full_like(step, -1)).unsqueeze(0)
            attend = self._attend(pools, numbers[size + 2 :].unsqueeze(0), places)
            self.network.hidden(tokens.unsqueeze(0), maximum(places, full_like(places, 0)), attend, self.length)
            return pools

        inputs = [*self._pool_inputs(), (described.shape, dtypes.int32)]
        program = self._program(("fill", size), inputs, body, list(range(layers)))
        self._pools = program([*self._pools, described])

    # ------------------------------------------------------------ steps

    def width_of(self, pages: int) -> int:
        """How wide the tables of a step are: on a CPU as wide as can be, elsewhere attention takes the time of it."""
        if self.device.is_cpu:
            return self.width
        width = NARROWEST
        while width < pages:
            width *= 2
        return min(width, self.width)

    def step(self, described: np.ndarray, settings: np.ndarray | None, tops: bool) -> tuple:
        """A decode step; with settings tokens are drawn, else the most likely ones are taken. Arrays of the tokens, of
        the logarithms of their probabilities and, if asked for, of the most likely ones and theirs.
        """
        layers, config = len(self._pools), self.network.config
        drawn = settings is not None

        def body(*given: Tensor) -> list[Tensor]:
            pools, last, rows = list(given[:layers]), given[layers], given[layers + 1]
            token, places = rows[:, TOKEN], rows[:, PLACE : PLACE + 1]
            token = where(token < 0, last, token).unsqueeze(1)
            attend = self._attend(pools, rows[:, TABLE:], places)
            x = self.network.hidden(token, maximum(places, full_like(places, 0)), attend, self.length)
            logits = self.network.logits(x[:, 0])
            made: list[Tensor] = []
            if drawn:
                counts, settings_of = given[layers + 2 :]
                chosen, logprob, counts = drawn_token(logits, counts, settings_of, rows[:, SEED:TABLE])
                made = [counts]
            else:
                chosen, logprob = likeliest_token(logits)
            found = list(likeliest_tokens(logits, min(MOST_LOGPROBS, config.vocabulary))) if tops else []
            return [*pools, *made, chosen, logprob, *found]

        inputs = [*self._pool_inputs(), ((self.rows,), dtypes.int32), (described.shape, dtypes.int32)]
        given = [*self._pools, self._last, described]
        donate = list(range(layers))
        if drawn:
            self._make_counts()
            inputs += [((self.rows, config.vocabulary), dtypes.int32), ((self.rows, 6), dtypes.float32)]
            given += [self._counts, settings]
            donate.append(layers + 2)
        made = self._program(("step", described.shape[1], drawn, tops), inputs, body, donate)(given)
        self._pools = made[:layers]
        if drawn:
            self._counts = made[layers]
        found = made[layers + drawn :]
        self._last = found[0]
        return tuple(found)

    def _make_counts(self) -> None:
        if self._counts is None:
            self._counts = self._zeros([self.rows, self.network.config.vocabulary], dtypes.int32)

    def count(self, row: int, counts: np.ndarray) -> None:
        """Set the counts of a row's tokens."""
        self._make_counts()
        tokens = self.network.config.vocabulary

        def body(held: Tensor, counts_of: Tensor, place: Tensor) -> list[Tensor]:
            return [put_row(held, counts_of, place)]

        inputs = [((self.rows, tokens), dtypes.int32), ((tokens,), dtypes.int32), ((1,), dtypes.int32)]
        program = self._program(("count",), inputs, body, [0])
        self._counts = program([self._counts, counts, np.asarray([row], np.int32)])[0]


def read(array: Any) -> np.ndarray:
    """An array on the host, when it is there."""
    return shutdown.within(np.asarray, array)
