"""The table of operators, by family."""

from bireme.files.paddle_models.kinds import detection as detection
from bireme.files.paddle_models.kinds import elementwise as elementwise
from bireme.files.paddle_models.kinds import normalization as normalization
from bireme.files.paddle_models.kinds import products as products
from bireme.files.paddle_models.kinds import recurrences as recurrences
from bireme.files.paddle_models.kinds import reductions as reductions
from bireme.files.paddle_models.kinds import shapes as shapes
from bireme.files.paddle_models.kinds.table import IGNORED as IGNORED
from bireme.files.paddle_models.kinds.table import KINDS as KINDS
from bireme.files.paddle_models.kinds.table import Kind as Kind
