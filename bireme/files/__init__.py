"""Saving and loading of Paddle's files and safetensors, written atomically and read without executing anything."""

from bireme.files.background import async_save as async_save
from bireme.files.background import clear_async_save_task_queue as clear_async_save_task_queue
from bireme.files.checkpoint import Checkpoint as Checkpoint
from bireme.files.mapped import MmapStorage as MmapStorage
from bireme.files.store import load as load
from bireme.files.store import read_metadata as read_metadata
from bireme.files.store import save as save
