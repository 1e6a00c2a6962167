"""`ViterbiDecoder`: the layer of `viterbi_decode`."""

from __future__ import annotations

from bireme.core.tensor.tensor import Tensor
from bireme.nn import Layer
from bireme.ops import viterbi_decode


class ViterbiDecoder(Layer):
    """Layer that finds the sequence of tags with the highest score, see ``viterbi_decode``.

    Args:
        transitions: Score of each tag (second axis) after each tag (first axis), of shape ``[tags, tags]``. A
            parameter is trained with the model.
        include_bos_eos_tag: The last row of ``transitions`` is what a first tag adds, and the row before it what a last
            tag adds. Default: True.
        name: Name of the layer. Default: None.

    Shape:
        - potentials: ``[N, T, tags]``; lengths: ``[N]``.
        - output: scores ``[N]`` and tags ``[N, longest length]``.

    Examples:
        >>> decoder = bireme.text.ViterbiDecoder(bireme.zeros([2, 2]), include_bos_eos_tag=False)
        >>> scores, path = decoder(bireme.to_tensor([[[0.0, 1.0], [2.0, 0.0]]]), bireme.to_tensor([2]))
        >>> scores.tolist(), path.tolist()
        ([3.0], [[1, 0]])
    """

    def __init__(self, transitions: Tensor, include_bos_eos_tag: bool = True, name: str | None = None):
        super().__init__()
        self.transitions, self.include_bos_eos_tag, self.name = transitions, include_bos_eos_tag, name

    def forward(self, potentials: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """Find the best tags.

        Args:
            potentials: Score of each tag at each step, of shape ``[N, T, tags]``.
            lengths: Number of steps of each sequence, integers of shape ``[N]``.

        Returns:
            Pair of scores and tags.

        Examples:
            >>> decoder = bireme.text.ViterbiDecoder(bireme.zeros([3, 3]))
            >>> decoder.forward(bireme.zeros([1, 4, 3]), bireme.to_tensor([2]))[1].tolist()
            [[0, 0]]
        """
        return viterbi_decode(potentials, self.transitions, lengths, self.include_bos_eos_tag)
