"""Decoding step by step: a decoder defines a step, ``dynamic_decode`` repeats it until every sequence has ended."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from bireme.core.base import dtype as dtypes
from bireme.core.base import errors
from bireme.core.base.boundary import Guarded, guard_functions
from bireme.core.tensor.tensor import Tensor
from bireme.nn.arguments import must_be_positive
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

NEVER = 1e9  # minus the log-probability of what is impossible


class Decoder(Guarded):
    """Base of decoders for ``dynamic_decode``; a subclass defines ``initialize`` and ``step``.

    Examples:
        >>> bireme.nn.decode.Decoder().tracks_own_finished
        False
    """

    def initialize(self, inits: Any) -> tuple:
        """Return what the first step takes.

        Args:
            inits: What ``dynamic_decode`` was called with.

        Returns:
            A tuple (inputs, states, finished); the last is a bool tensor of the sequences that have ended already.
        """
        raise errors.missing_method(self, "initialize")

    def step(self, time: Tensor, inputs: Any, states: Any, **kwargs: Any) -> tuple:
        """Compute one time step.

        Args:
            time: Index of the time step, an int64 tensor ``[1]``.
            inputs: Inputs of the step.
            states: States before the step.
            **kwargs: Further arguments of ``dynamic_decode``.

        Returns:
            A tuple (outputs, next states, next inputs, finished).
        """
        raise errors.missing_method(self, "step")

    def finalize(self, outputs: Any, final_states: Any, sequence_lengths: Tensor) -> tuple:
        """Replace the outputs of all time steps and the final states; optional.

        Args:
            outputs: Outputs of all time steps, stacked along the first axis.
            final_states: States after the last step.
            sequence_lengths: Length of each sequence.

        Returns:
            A tuple (outputs, final states).
        """
        raise errors.missing_method(self, "finalize")

    @property
    def tracks_own_finished(self) -> bool:
        """Whether ``step`` itself keeps track of the sequences that had ended before."""
        return False


class BeamSearchDecoder(Decoder):
    """Beam search: keeps the ``beam_size`` most probable sequences of each sample.

    Args:
        cell: Cell called as ``cell(inputs, states)``, with the beams merged into the batch; its output, or that of
            ``output_fn``, is logits over the tokens.
        start_token: First token of all sequences.
        end_token: Token that ends a sequence.
        beam_size: Number of sequences for each sample.
        embedding_fn: Function of a tensor of tokens that returns the inputs of the cell. Default: None, the tokens.
        output_fn: Function of the cell's output that returns logits. Default: None.

    Examples:
        >>> cell = bireme.nn.SimpleRNNCell(3, 3)
        >>> decoder = bireme.nn.BeamSearchDecoder(cell, 0, 1, beam_size=2, embedding_fn=bireme.nn.Embedding(3, 3))
        >>> bireme.nn.dynamic_decode(decoder, bireme.zeros([4, 3]), max_step_num=5)[0].shape[::2]
        [4, 2]
    """

    class OutputWrapper(NamedTuple):
        """What a step chose for each beam.

        Args:
            scores: Log-probabilities of the sequences so far, ``[N, beam_size]``.
            predicted_ids: Chosen tokens, ``[N, beam_size]``.
            parent_ids: Beams that they continue, ``[N, beam_size]``.

        Examples:
            >>> bireme.nn.BeamSearchDecoder.OutputWrapper._fields
            ('scores', 'predicted_ids', 'parent_ids')
        """

        scores: Any
        predicted_ids: Any
        parent_ids: Any

    class StateWrapper(NamedTuple):
        """State of the search between two steps.

        Args:
            cell_states: States of the cell, ``[N, beam_size, ...]``.
            log_probs: Log-probabilities of the sequences, ``[N, beam_size]``.
            finished: Which of them have ended, ``[N, beam_size]``.
            lengths: Their lengths, ``[N, beam_size]``.

        Examples:
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
        must_be_positive("BeamSearchDecoder", beam_size=beam_size)
        self.cell, self.embedding_fn, self.output_fn = cell, embedding_fn, output_fn
        self.start_token, self.end_token, self.beam_size = start_token, end_token, beam_size

    @staticmethod
    def tile_beam_merge_with_batch(x: Tensor, beam_size: int) -> Tensor:
        """Repeat each sample ``beam_size`` times, for tensors that a cell reads beside its inputs and states.

        Args:
            x: Tensor ``[N, ...]``.
            beam_size: Number of repetitions.

        Returns:
            Tensor ``[N * beam_size, ...]``.

        Examples:
            >>> bireme.nn.BeamSearchDecoder.tile_beam_merge_with_batch(bireme.to_tensor([1, 2]), 2).tolist()
            [1, 1, 2, 2]
        """
        return repeat_interleave(x, beam_size, 0)

    def _merged(self, x: Tensor) -> Tensor:
        return reshape(x, [x.shape[0] * x.shape[1], *x.shape[2:]])

    def _split(self, x: Tensor) -> Tensor:
        return reshape(x, [x.shape[0] // self.beam_size, self.beam_size, *x.shape[1:]])

    def _chosen(self, x: Tensor, beams: Tensor) -> Tensor:
        """The given beams of each sample."""
        batch = tile(arange(0, beams.shape[0], dtype=beams.dtype).unsqueeze(1), [1, beams.shape[1]])
        return gather_nd(x, stack([batch, beams], 2))

    def initialize(self, initial_cell_states: Any) -> tuple[Any, Any, Tensor]:
        """Return the first inputs and states; all beams are copies of the first, which alone counts.

        Args:
            initial_cell_states: States of the cell for each sample, ``[N, ...]``, or a nested structure of them.

        Returns:
            A tuple (inputs, ``StateWrapper``, finished).
        """
        batch = flatten(initial_cell_states)[0].shape[0]
        states = map_structure(lambda x: self._split(repeat_interleave(x, self.beam_size, 0)), initial_cell_states)
        tokens = full([batch, self.beam_size], self.start_token, "int64")
        kind = dtypes.float64 if dtypes.get_default() is dtypes.float64 else dtypes.float32
        scores = concat([zeros([batch, 1], kind), full([batch, self.beam_size - 1], -NEVER, kind)], 1)
        ended = full([batch, self.beam_size], False, "bool")
        inputs = tokens if self.embedding_fn is None else self.embedding_fn(tokens)
        return inputs, self.StateWrapper(states, scores, ended, zeros_like(tokens)), ended

    def step(self, time: Tensor, inputs: Any, states: Any, **kwargs: Any) -> tuple:
        """Run the cell for all beams and choose the best continuations of each sample.

        Args:
            time: Index of the time step; not used.
            inputs: Inputs of the cell, ``[N, beam_size, ...]``.
            states: ``StateWrapper`` of the step before.
            **kwargs: Further arguments of the cell.

        Returns:
            A tuple (``OutputWrapper``, ``StateWrapper``, next inputs, finished).
        """
        outputs, next_states = self.cell(
            map_structure(self._merged, inputs), map_structure(self._merged, states.cell_states), **kwargs
        )
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
        # a beam that has ended continues with the end token alone, at no cost
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
        """Trace the sequences of tokens back from the last step.

        Args:
            outputs: ``OutputWrapper`` of all time steps, ``[T, N, beam_size]``.
            final_states: ``StateWrapper`` after the last step.
            sequence_lengths: Lengths of the sequences; not used.

        Returns:
            A tuple of the tokens ``[T, N, beam_size]`` and the final states.
        """
        return gather_tree(outputs.predicted_ids, outputs.parent_ids), final_states

    @property
    def tracks_own_finished(self) -> bool:
        """True: beams change places, so only the decoder knows which of them have ended."""
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
    """Repeat the step of a decoder until all sequences have ended.

    Args:
        decoder: The decoder, such as ``BeamSearchDecoder``.
        inits: What ``decoder.initialize`` takes. Default: None.
        max_step_num: Stop after so many time steps beyond the first. Default: None, no limit.
        output_time_major: Return outputs ``[T, N, ...]`` instead of ``[N, T, ...]``. Default: False.
        impute_finished: Keep the states of sequences that have ended, where the decoder does not. Default: False.
        is_test: Accepted for compatibility and not used. Default: False.
        return_length: Return the lengths of the sequences as well. Default: False.
        **kwargs: Further arguments of ``decoder.step``.

    Returns:
        A tuple (outputs, final states), with ``return_length`` (outputs, final states, lengths).

    Examples:
        >>> cell = bireme.nn.SimpleRNNCell(3, 3)
        >>> decoder = bireme.nn.BeamSearchDecoder(cell, 0, 1, 2, bireme.nn.Embedding(3, 3))
        >>> out, states, lengths = bireme.nn.dynamic_decode(decoder, bireme.zeros([4, 3]), 5, return_length=True)
        >>> lengths.shape
        [4, 2]
    """
    if not hasattr(decoder, "initialize") or not hasattr(decoder, "step"):
        raise errors.bad("dynamic_decode(decoder)", "a Decoder", decoder, kind=errors.ArgumentTypeError)
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
                next_states = map_structure(
                    lambda old, new, ended=next_finished: _kept(old, new, ended), states, next_states
                )
        states, finished = next_states, next_finished
        collected.append(outputs)
        if max_step_num is not None and len(collected) > max_step_num:
            break
    if not collected:
        raise errors.bad("dynamic_decode(inits)", "at least one unfinished sequence", described="none")
    outputs = map_structure(lambda *steps: stack(list(steps), 0), *collected)
    if type(decoder).finalize is not Decoder.finalize:
        outputs, states = decoder.finalize(outputs, states, lengths)
    if not output_time_major:
        outputs = map_structure(lambda x: x.transpose([1, 0, *range(2, x.ndim)]), outputs)
    return (outputs, states, lengths) if return_length else (outputs, states)


def _kept(old: Tensor, new: Tensor, ended: Tensor) -> Tensor:
    """The states of sequences that have ended stay as they were."""
    return where(ended.reshape([*ended.shape, *[1] * (new.ndim - ended.ndim)]), old, new)


guard_functions(globals())
