"""What a search needs to know of a model: its parts, in the order in which they run, by what they compute, keep and say."""

from __future__ import annotations

import dataclasses
from typing import Any

__all__ = ["Description", "Part"]


@dataclasses.dataclass
class Part:
    """A stretch of a model that one stage of a pipeline runs whole: a block, or what stands before or after the blocks.

    What grows with the batch is for the batch of the sample. ``divided`` is what tensor parallelism divides, ``whole``
    what it leaves whole; bytes are those of the recorded data types.
    """

    name: str = ""
    parameters: int = 0  # elements that every device of a tensor parallel group has
    divided_parameters: int = 0
    expert_parameters: int = 0
    tensors: int = 0  # how many parameters, by the same three kinds
    divided_tensors: int = 0
    expert_tensors: int = 0
    layers: int = 0  # sublayers that own parameters: each is gathered at use in stage 3
    flops: float = 0.0  # of products with weights that stay whole
    divided_flops: float = 0.0
    attention_flops: float = 0.0
    factors: float = 0.0  # bytes that products with weights read and write, without the weights
    divided_factors: float = 0.0
    moved: float = 0.0  # bytes that other calls read and write
    divided_moved: float = 0.0
    saved: float = 0.0  # bytes that the backward pass reads
    divided_saved: float = 0.0
    kept: float = 0.0  # bytes that a compiler keeps besides: what both passes compute of one operand
    divided_kept: float = 0.0
    scores: float = 0.0  # bytes of the weights of attention, where they are computed whole
    normed: float = 0.0  # bytes among those saved and kept that sequence parallelism divides
    regions: float = 0.0  # bytes among those kept that layers with parameters compute
    working: float = 0.0  # bytes of the largest call: its operands and results
    border: float = 0.0  # bytes that the next part reads
    reduced: int = 0  # all-reduces of tensor parallelism in the forward pass, and their bytes
    reduced_bytes: float = 0.0
    backward_reduced: int = 0
    backward_reduced_bytes: float = 0.0
    backward_added_bytes: float = 0.0  # the same where gradients of one input are added before they are reduced
    used_tensors: int = 0  # parameters that the backward pass reads, and their elements
    used_parameters: int = 0
    divided_used_parameters: int = 0
    norms: int = 0  # parameters of norms, and their elements
    norm_parameters: int = 0
    dispatched: int = 0  # exchanges with experts in the forward pass, and their bytes
    dispatched_bytes: float = 0.0


@dataclasses.dataclass
class Description:
    """A model as its parts, with what constrains the ways to divide it.

    Args:
        parts: What stands before the blocks, the blocks, and what stands after them.
        batch: Batch size of the sample.
        tokens: Elements of the first input for each example: the length of a sequence.
        sizes: Sizes that tensor parallelism has to divide, as numbers of heads.
        lengths: Sizes of the sequence that sequence parallelism has to divide; empty where it does not apply.
        experts: Number of experts of a layer; 0 where there are none.
        roles: How tensor parallelism divides layers, ``"column"`` or ``"row"`` by name, and ``"norm"`` for those
            between which a sequence may be divided.
        blocks: Name of the list of blocks; empty where there is none.
        itemsize: Bytes of an element of the recorded activations.
    """

    parts: list[Part]
    batch: int
    tokens: int
    sizes: list[int]
    lengths: list[int]
    experts: int
    roles: dict[str, str]
    blocks: str
    itemsize: int = 4

    @property
    def parameters(self) -> int:
        """Number of elements of all parameters."""
        return sum(p.parameters + p.divided_parameters + p.expert_parameters for p in self.parts)

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain data."""
        return dataclasses.asdict(self)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Description:
        """Return what ``to_dict`` was called on."""
        return cls(**{**data, "parts": [Part(**p) for p in data["parts"]]})
