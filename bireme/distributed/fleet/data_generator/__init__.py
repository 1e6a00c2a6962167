"""Programs that make slot files of raw data, for the ``pipe_command`` of a dataset."""

from bireme.distributed.fleet.data_generator.data_generator import (
    DataGenerator,
    MultiSlotDataGenerator,
    MultiSlotStringDataGenerator,
)

__all__ = ["DataGenerator", "MultiSlotDataGenerator", "MultiSlotStringDataGenerator"]
