"""The programs that an engine runs: decode steps for all rows, a chunk of one prompt, and the arrays they hand on.

A row of the decode step is described by integers: the token, or -1 for the one that the last step chose; its place, or -1
where the row is empty; seed, number of the draw, top-k, whether it counts; how many tokens it has at most; and the pages of
its text.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from bireme.core.base import device as devices
from bireme.core.base import dtype as dtypes
from bireme.core.base import shutdown
from bireme.core.program.building import suspended
from bireme.core.record.capture import capture
from bireme.core.tensor.grad_mode import no_grad
from bireme.core.tensor.tensor import Tensor, wrap
from bireme.llm.network import Network, Rotation, parted
from bireme.llm.options import MOST_LOGPROBS
from bireme.ops import (
    arange,
    attend_newest,
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

# columns of what describes rows
TOKEN, PLACE, SEED, DRAW, TOP_K, COUNTS, UNTIL, TABLE = 0, 1, 2, 4, 5, 6, 7, 8
NARROWEST = 8  # pages of a table, where tables are as wide as the longest text
# On an accelerator a step has so many rows at least, some of them empty: for one alone the compiler multiplies without the units
# made for it (a LLaMA of 1.2 billion weights on an H200: 1.54 ms a step, 1.25 with eight).
FEWEST_ROWS = 8

Inputs = list[tuple[tuple, Any]]


class Programs:
    """Compiled programs over the arrays of a cache, which are handed from one to the next."""

    def __init__(self, network: Network, rows: int, length: int, pages: int, page: int, dtype: Any):
        self.network, self.length, self.page = network, length, page
        self.device = devices.current()
        self.slots = rows  # for texts
        self.rows = rows if self.device.is_cpu else max(rows, FEWEST_ROWS)
        self.width = -(-length // page)  # of a table
        config = network.config
        shape = [pages, 2 * config.shared_heads, page, config.head_width]
        self._dtype = dtype
        self._pools = [self._zeros(shape, dtype) for _ in range(config.layers)]
        self._last = self._zeros([self.rows], dtypes.int32)
        self._counts: Any = None  # of tokens; made when a row needs them
        self._bias: Any = None  # of logits; likewise
        self._compiled: dict[tuple, Callable[[list], list]] = {}

    @property
    def compiled(self) -> int:
        """Programs so far."""
        return len(self._compiled)

    def _zeros(self, shape: list[int], dtype: Any) -> Any:
        with no_grad():
            return zeros(shape, dtype).__jax_array__()

    def _program(
        self,
        key: tuple,
        inputs: Callable[[], Inputs],
        body: Callable,
        donate: list[int],
        times: int = 1,
        carried: Mapping[int, int] | None = None,
    ) -> Callable:
        """A program, from the cache or captured now: `body` takes tensors and gives a list of tensors."""
        if key not in self._compiled:
            with suspended(), no_grad(), capture() as captured:
                given = [wrap(captured.input(tuple(shape), dtype)) for shape, dtype in inputs()]
                made = captured.finish([t._value for t in body(*given)])
            self._compiled[key] = made.compiled(donate, times=times, carried=carried)
        return self._compiled[key]

    def _attend(self, pools: list[Tensor], tables: Tensor, places: Tensor) -> Callable:
        config = self.network.config

        def attend(number: int, made: Tensor, rotation: Rotation) -> Tensor:
            scale, window = config.head_width**-0.5, config.windows[number]
            if made.shape[1] == 1 and not self.device.is_cpu:
                turns = [t.reshape([-1, config.head_width]) for t in rotation or ()]
                out, pools[number] = attend_newest(
                    made[:, 0], turns, pools[number], tables, places[:, 0], scale, window
                )
                return out.unsqueeze(1)
            query, key, value = parted(config, made, rotation)
            pools[number] = write_pages(pools[number], concat([key, value], 2), tables, places)
            return paged_attention(query, pools[number], tables, places, scale, window)

        return attend

    def _pool_inputs(self) -> Inputs:
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

        def inputs() -> Inputs:
            return [*self._pool_inputs(), (described.shape, dtypes.int32)]

        self._pools = self._program(("fill", size), inputs, body, list(range(layers)))([*self._pools, described])

    # ------------------------------------------------------------ steps

    def width_of(self, pages: int) -> int:
        """How wide the tables of a step are: on a CPU as wide as can be, elsewhere attention takes the time of it."""
        if self.device.is_cpu:
            return self.width
        width = NARROWEST
        while width < pages:
            width *= 2
        return min(width, self.width)

    def step(
        self, described: np.ndarray, settings: np.ndarray | None, tops: bool, times: int = 1, biased: bool = False
    ) -> tuple:
        """Decode steps of one program; with settings tokens are drawn, else the most likely ones are taken. Arrays of the
        tokens, of the logarithms of their probabilities and, if asked for, of the most likely ones and theirs; of several
        steps along a first axis.
        """
        layers, drawn = len(self._pools), settings is not None

        def body(*given: Tensor) -> list[Tensor]:
            pools, last, rows = list(given[:layers]), given[layers], given[layers + 1]
            logits = self._logits(pools, last, rows)
            found = self._chosen(logits, rows, given[layers + 2 :], None, tops)
            # an output is carried or told of: the last token of a row is another value than what was chosen
            carried = [_next(rows), where(rows[:, PLACE] < 0, last, found[drawn])] if times > 1 else []
            return [*pools, *found[:drawn], *carried, *found[drawn:]]

        def inputs() -> Inputs:
            found: Inputs = [*self._pool_inputs(), ((self.rows,), dtypes.int32), (described.shape, dtypes.int32)]
            return found + (self._draw_inputs(biased) if drawn else [])

        given = [*self._pools, self._last, described, *self._draws(settings, biased)]
        donate = [*range(layers), *([layers + 2] if drawn else [])]
        carried = None
        if times > 1:
            carried = {i: i for i in range(layers)} | ({layers: layers + 2} if drawn else {})
            carried |= {layers + drawn: layers + 1, layers + drawn + 1: layers}
        key = ("step", described.shape[1], drawn, tops, biased, times)
        made = self._program(key, inputs, body, donate, times, carried)(given)
        self._pools = made[:layers]
        if drawn:
            self._counts = made[layers]
        if times > 1:
            self._last = made[layers + drawn + 1]
            return tuple(made[layers + drawn + 2 :])
        self._last = made[layers + drawn]
        return tuple(made[layers + drawn :])

    def forward(self, described: np.ndarray) -> Any:
        """The first half of a step, for `choose`: the array of logits. What may be chosen is found out meanwhile."""
        layers = len(self._pools)

        def body(*given: Tensor) -> list[Tensor]:
            pools, last, rows = list(given[:layers]), given[layers], given[layers + 1]
            logits = self._logits(pools, last, rows)
            return [*pools, logits]

        def inputs() -> Inputs:
            return [*self._pool_inputs(), ((self.rows,), dtypes.int32), (described.shape, dtypes.int32)]

        key = "forward", described.shape[1]
        *self._pools, logits = self._program(key, inputs, body, list(range(layers)))(
            [*self._pools, self._last, described]
        )
        return logits

    def choose(
        self,
        logits: Any,
        described: np.ndarray,
        settings: np.ndarray | None,
        tops: bool,
        biased: bool,
        allowed: np.ndarray,
    ) -> tuple:
        """The second half of a step: as `step`, but of tokens whose bits are set in `allowed` alone."""
        drawn = settings is not None

        def body(found: Tensor, rows: Tensor, bits: Tensor, *given: Tensor) -> list[Tensor]:
            return self._chosen(found, rows, given, bits, tops)

        def inputs() -> Inputs:
            kind = dtypes.of(logits.dtype, "logits")
            found: Inputs = [(logits.shape, kind), (described.shape, dtypes.int32), (allowed.shape, dtypes.int32)]
            return found + (self._draw_inputs(biased) if drawn else [])

        key = ("choose", described.shape[1], drawn, tops, biased)
        program = self._program(key, inputs, body, [3] if drawn else [])
        made = program([logits, described, allowed, *self._draws(settings, biased)])
        if drawn:
            self._counts = made[0]
        self._last = made[drawn]
        return tuple(made[drawn:])

    def _logits(self, pools: list[Tensor], last: Tensor, rows: Tensor) -> Tensor:
        token, places = rows[:, TOKEN], rows[:, PLACE : PLACE + 1]
        token = where(token < 0, last, token).unsqueeze(1)
        attend = self._attend(pools, rows[:, TABLE:], places)
        x = self.network.hidden(token, maximum(places, full_like(places, 0)), attend, self.length)
        return self.network.logits(x[:, 0])

    def _chosen(
        self, logits: Tensor, rows: Tensor, draws: tuple[Tensor, ...], allowed: Tensor | None, tops: bool
    ) -> list[Tensor]:
        """Counts if there are any, tokens, logarithms of probabilities, and those of the most likely tokens."""
        made: list[Tensor] = []
        if draws:
            counts, settings, *more = draws
            bias = more[0] if more else None
            chosen, logprob, counts = drawn_token(logits, counts, settings, rows[:, SEED:UNTIL], allowed, bias)
            made = [counts]
        else:
            chosen, logprob = likeliest_token(logits, allowed)
        found = list(likeliest_tokens(logits, min(MOST_LOGPROBS, self.network.config.vocabulary))) if tops else []
        return [*made, chosen, logprob, *found]

    def _draw_inputs(self, biased: bool) -> Inputs:
        each = self.rows, self.network.config.vocabulary
        return [(each, dtypes.int32), ((self.rows, 6), dtypes.float32), *([(each, dtypes.float32)] if biased else [])]

    def _draws(self, settings: np.ndarray | None, biased: bool) -> list:
        if settings is None:
            return []
        if self._counts is None:
            self._counts = self._zeros([self.rows, self.network.config.vocabulary], dtypes.int32)
        return [self._counts, settings, *([self._bias] if biased else [])]

    def count(self, row: int, counts: np.ndarray) -> None:
        """Set the counts of a row's tokens."""
        self._counts = self._put(self._counts, row, counts, dtypes.int32)

    def bias(self, row: int, biases: np.ndarray) -> None:
        """Set what is added to a row's logits."""
        self._bias = self._put(self._bias, row, biases, dtypes.float32)

    def _put(self, held: Any, row: int, values: np.ndarray, dtype: Any) -> Any:
        """An array [rows, tokens] with other values in a row; where there is none yet, of zeros."""
        shape = [self.rows, self.network.config.vocabulary]

        def body(held: Tensor, values: Tensor, place: Tensor) -> list[Tensor]:
            return [put_row(held, values, place)]

        def inputs() -> Inputs:
            return [(tuple(shape), dtype), (tuple(shape[1:]), dtype), ((1,), dtypes.int32)]

        held = self._zeros(shape, dtype) if held is None else held
        return self._program(("put", dtype), inputs, body, [0])([held, values, np.asarray([row], np.int32)])[0]


def _next(rows: Tensor) -> Tensor:
    """What describes the rows of the next step: the token that was chosen, one place on; a row that is full is empty."""
    place = rows[:, PLACE] + 1
    place = where((rows[:, PLACE] < 0) | (place >= rows[:, UNTIL]), full_like(place, -1), place)
    parts = [full_like(place, -1), place, rows[:, SEED], rows[:, SEED + 1], rows[:, DRAW] + 1]
    return concat([*[part.unsqueeze(1) for part in parts], rows[:, TOP_K:]], 1)


def read(array: Any) -> np.ndarray:
    """An array on the host, when it is there."""
    return shutdown.within(np.asarray, array)


def send(array: Any) -> None:
    """Have an array brought to the host as soon as it is there, so that reading it waits for nothing else."""
    array.copy_to_host_async()
