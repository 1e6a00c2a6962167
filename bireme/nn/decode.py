"""Decoding step by step: a decoder says what a step is, `dynamic_decode` repeats it until every sequence has ended."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from bireme.core.base import dtype as dtypes
from bireme.core.base import errors
from bireme.core.tensor.tensor import Tensor
from bireme.ops import (
    arange,
    concat,
    full,
    gather_nd,
    gather_tree,
    log_softmax,
    logical_not,
    logical_or,
    repeat_interleave,
    reshape,
    stack,
    tile,
    topk,
    where,
    zeros,
    zeros_like,
)
from bireme.utils.structure import flatten, map_structure

NEVER = 1e9  # the logarithm of a probability that is none, with its sign turned


class Decoder:
    """What `dynamic_decode` needs of a decoder; derive from it and write `initialize` and `step`.

    >>> bireme.nn.decode.Decoder().tracks_own_finished
    False
    """

    def initialize(self, inits: Any) -> tuple:
        """First inputs, first states, and a bool tensor that says which sequences have ended already."""
        raise NotImplementedError(f"{type(self).__name__}.initialize: not written")

    def step(self, time: Tensor, inputs: Any, states: Any, **kwargs: Any) -> tuple:
        """Outputs, next states, next inputs and which sequences have ended, after one step."""
        raise NotImplementedError(f"{type(self).__name__}.step: not written")

    def finalize(self, outputs: Any, final_states: Any, sequence_lengths: Tensor) -> tuple:
        """What is returned in place of all outputs, stacked along time, and the last states; may stay unwritten."""
        raise NotImplementedError(f"{type(self).__name__}.finalize: not written")

    @property
    def tracks_own_finished(self) -> bool:
        """Whether `step` knows itself which sequences had ended before."""
        return False


class BeamSearchDecoder(Decoder):
    """The `beam_size` likeliest sequences of each batch entry, found step by step with a cell that gives logits.

    >>> cell = bireme.nn.SimpleRNNCell(3, 3)
    >>> decoder = bireme.nn.BeamSearchDecoder(cell, start_token=0, end_token=1, beam_size=2, embedding_fn=bireme.nn.Embedding(3, 3))
    >>> bireme.nn.dynamic_decode(decoder, bireme.zeros([4, 3]), max_step_num=5)[0].shape[::2]
    [4, 2]
    """

    class OutputWrapper(NamedTuple):
        """What a step chose: scores, tokens, and the beams that they go on from.

        >>> bireme.nn.BeamSearchDecoder.OutputWrapper._fields
        ('scores', 'predicted_ids', 'parent_ids')
        """

        scores: Any
        predicted_ids: Any
        parent_ids: Any

    class StateWrapper(NamedTuple):
        """What a step goes on from: the cell's states, and each beam's logarithm of probability, end and length.

        >>> bireme.nn.BeamSearchDecoder.StateWrapper._fields
        ('cell_states', 'log_probs', 'finished', 'lengths')
        """

        cell_states: Any
        log_probs: Any
        finished: Any
        lengths: Any

    def __init__(
        self,
        cell: Any,
        start_token: int,
        end_token: int,
        beam_size: int,
        embedding_fn: Callable | None = None,
        output_fn: Callable | None = None,
    ):
        if not isinstance(beam_size, int) or beam_size < 1:
            raise errors.bad("BeamSearchDecoder(beam_size)", "an integer of 1 or more", beam_size)
        self.cell, self.embedding_fn, self.output_fn = cell, embedding_fn, output_fn
        self.start_token, self.end_token, self.beam_size = start_token, end_token, beam_size

    @staticmethod
    def tile_beam_merge_with_batch(x: Tensor, beam_size: int) -> Tensor:
        """Each batch entry `beam_size` times, one after another: for what a cell reads beside its inputs and states.

        >>> bireme.nn.BeamSearchDecoder.tile_beam_merge_with_batch(bireme.to_tensor([1, 2]), 2).tolist()
        [1, 1, 2, 2]
        """
        return repeat_interleave(x, beam_size, 0)

    def _merged(self, x: Tensor) -> Tensor:
        return reshape(x, [x.shape[0] * x.shape[1], *x.shape[2:]])

    def _split(self, x: Tensor) -> Tensor:
        return reshape(x, [x.shape[0] // self.beam_size, self.beam_size, *x.shape[1:]])

    def _chosen(self, x: Tensor, beams: Tensor) -> Tensor:
        """Of each batch entry the beams with these numbers."""
        batch = tile(arange(0, beams.shape[0], dtype=beams.dtype).unsqueeze(1), [1, beams.shape[1]])
        return gather_nd(x, stack([batch, beams], 2))

    def initialize(self, initial_cell_states: Any) -> tuple[Any, Any, Tensor]:
        """First inputs, states and ends: only the first beam of each entry counts, the others are copies of it."""
        batch = flatten(initial_cell_states)[0].shape[0]
        states = map_structure(lambda x: self._split(repeat_interleave(x, self.beam_size, 0)), initial_cell_states)
        tokens = full([batch, self.beam_size], self.start_token, "int64")
        kind = dtypes.float64 if dtypes.get_default() is dtypes.float64 else dtypes.float32
        scores = concat([zeros([batch, 1], kind), full([batch, self.beam_size - 1], -NEVER, kind)], 1)
        ended = full([batch, self.beam_size], False, "bool")
        inputs = tokens if self.embedding_fn is None else self.embedding_fn(tokens)
        return inputs, self.StateWrapper(states, scores, ended, zeros_like(tokens)), ended

    def step(self, time: Tensor, inputs: Any, states: Any, **kwargs: Any) -> tuple:
        """One step of the cell for all beams, and the best continuations of each batch entry."""
        outputs, next_states = self.cell(map_structure(self._merged, inputs), map_structure(self._merged, states.cell_states), **kwargs)
        outputs, next_states = map_structure(self._split, outputs), map_structure(self._split, next_states)
        logits = outputs if self.output_fn is None else self.output_fn(outputs)
        chosen, new = self._search(logits, next_states, states)
        tokens = chosen.predicted_ids
        return chosen, new, tokens if self.embedding_fn is None else self.embedding_fn(tokens), new.finished

    def _search(self, logits: Tensor, next_states: Any, states: Any) -> tuple[Any, Any]:
        words = logits.shape[-1]
        if not 0 <= self.end_token < words:
            raise errors.bad("BeamSearchDecoder(end_token)", f"a token in [0, {words - 1}]", self.end_token)
        steps = log_softmax(logits.astype(states.log_probs.dtype))
        # a beam that has ended goes on with the end token alone, at no cost
        stays = where(arange(0, words) == self.end_token, full([], 0.0, steps.dtype), full([], -NEVER, steps.dtype))
        steps = where(states.finished.unsqueeze(2), stays, steps)
        scores = reshape(steps + states.log_probs.unsqueeze(2), [-1, self.beam_size * words])
        best, at = topk(scores, self.beam_size)
        beams, tokens = at // words, at % words
        ended = self._chosen(states.finished, beams)
        lengths = self._chosen(states.lengths, beams) + logical_not(ended).astype(states.lengths.dtype)
        cells = map_structure(lambda x: self._chosen(x, beams), next_states)
        ended = logical_or(ended, tokens == self.end_token)
        return self.OutputWrapper(best, tokens, beams), self.StateWrapper(cells, best, ended, lengths)

    def finalize(self, outputs: Any, final_states: Any, sequence_lengths: Tensor) -> tuple[Tensor, Any]:
        """The sequences of tokens, read back from the last step along the beams they came from."""
        return gather_tree(outputs.predicted_ids, outputs.parent_ids), final_states

    @property
    def tracks_own_finished(self) -> bool:
        """Beams change places, so only the decoder knows which of them have ended."""
        return True


def dynamic_decode(
    decoder: Decoder,
    inits: Any = None,
    max_step_num: int | None = None,
    output_time_major: bool = False,
    impute_finished: bool = False,
    is_test: bool = False,
    return_length: bool = False,
    **kwargs: Any,
) -> tuple:
    """Repeat a decoder's step until all sequences have ended, or after `max_step_num` more steps than the first.

    Returns outputs, [batch, time, ...] or with `output_time_major` [time, batch, ...], the last states, and lengths if asked for.

    >>> cell = bireme.nn.SimpleRNNCell(3, 3)
    >>> decoder = bireme.nn.BeamSearchDecoder(cell, 0, 1, 2, bireme.nn.Embedding(3, 3))
    >>> out, states, lengths = bireme.nn.dynamic_decode(decoder, bireme.zeros([4, 3]), max_step_num=5, return_length=True)
    >>> lengths.shape
    [4, 2]
    """
    inputs, states, finished = decoder.initialize(inits)
    lengths = zeros(finished.shape, "int64")
    collected: list[Any] = []
    while not bool(finished.all()):
        time = full([1], len(collected), "int64")
        outputs, next_states, inputs, next_finished = decoder.step(time, inputs, states, **kwargs)
        if decoder.tracks_own_finished:
            if not hasattr(next_states, "lengths"):
                errors.warn("dynamic_decode(): the decoder's states have no lengths, so those returned are zero")
            lengths = getattr(next_states, "lengths", lengths)
        else:
            next_finished = logical_or(next_finished, finished)
            lengths = lengths + logical_not(next_finished).astype("int64")
            if impute_finished:
                next_states = map_structure(lambda old, new, ended=next_finished: _kept(old, new, ended), states, next_states)
        states, finished = next_states, next_finished
        collected.append(outputs)
        if max_step_num is not None and len(collected) > max_step_num:
            break
    if not collected:
        raise errors.bad("dynamic_decode(inits)", "a sequence that has not ended", "none")
    outputs = map_structure(lambda *steps: stack(list(steps), 0), *collected)
    if type(decoder).finalize is not Decoder.finalize:
        outputs, states = decoder.finalize(outputs, states, lengths)
    if not output_time_major:
        outputs = map_structure(lambda x: x.transpose([1, 0, *range(2, x.ndim)]), outputs)
    return (outputs, states, lengths) if return_length else (outputs, states)


def _kept(old: Tensor, new: Tensor, ended: Tensor) -> Tensor:
    """The states of sequences that have ended stay as they were."""
    return where(ended.reshape([*ended.shape, *[1] * (new.ndim - ended.ndim)]), old, new)
