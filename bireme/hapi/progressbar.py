"""Progress: one live line on a terminal or in a notebook, plain lines in a file. No third party's library."""

from __future__ import annotations

import sys
import time
from typing import Any

import numpy as np

from bireme.core.base import errors, terminal
from bireme.core.tensor.tensor import Tensor
from bireme.hapi.callback import Callback, say

_REDRAW = 0.2  # seconds between two drawings of a live line whose numbers are the same


def shown(value: Any) -> str:
    """Format a value: four digits after the point, or in scientific notation if it is small."""
    if isinstance(value, Tensor):
        value = value._host()
    if isinstance(value, (list, tuple, np.ndarray)):
        return " ".join(shown(v) for v in (value.ravel() if isinstance(value, np.ndarray) else value))
    if isinstance(value, (float, np.floating)):
        return f"{value:.4e}" if abs(float(value)) <= 1e-3 else f"{value:.4f}"
    return str(value)


def duration(seconds: float) -> str:
    """Format a duration in a suitable unit: ``972us``, ``12ms``, ``1.5s``, ``2:05``, ``1:02:05``.

    Args:
        seconds: The duration in seconds.

    Returns:
        A str.

    Examples:
        >>> from bireme.hapi.progressbar import duration
        >>> duration(0.000972), duration(0.0123), duration(1.5), duration(3725)
        ('972us', '12ms', '1.5s', '1:02:05')
    """
    if seconds < 1e-3:
        return f"{seconds * 1e6:.0f}us"
    if seconds < 0.9995:
        return f"{seconds * 1e3:.0f}ms"
    if seconds < 59.5:
        return f"{seconds:.1f}s" if seconds < 9.95 else f"{seconds:.0f}s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


class ProgressBar:
    """A line of progress over one pass over the data.

    Args:
        num: Number of steps. Default: None, not known.
        width: Largest width of the bar in characters. Default: 30.
        verbose: 0: nothing; 1: one line that is redrawn, or lines where stdout is no terminal; 2: lines.
            Default: 1.
        start: Start to measure the time at once. Default: True.
        file: File object to write to. Default: None, stdout.
        name: What is counted. Default: ``"step"``.

    Examples:
        >>> from bireme.hapi.progressbar import ProgressBar
        >>> ProgressBar(4, verbose=2).update(2, [("loss", 0.5)])
        step 2/4 - loss: 0.5000 - ...
    """

    def __init__(
        self,
        num: int | None = None,
        width: int = 30,
        verbose: int = 1,
        start: bool = True,
        file: Any = None,
        name: str = "step",
    ):
        if num is not None and (isinstance(num, bool) or not isinstance(num, int) or num <= 0):
            raise errors.bad("ProgressBar(num)", "a positive integer or None", num, kind=errors.ArgumentTypeError)
        self.num, self.verbose, self.name, self.file = num, verbose, name, file
        self.live = verbose == 1 and terminal.is_live(self._stream)
        self.figures: list[tuple[str, Any]] = []
        self.samples = self.step = 0
        self._width = 0  # of the live line
        self._bar = width
        self._pace = 0.0  # seconds for a step, and samples a second, since the line before
        self._rate = 0.0
        if start:
            self.start()

    @property
    def _stream(self) -> Any:
        return sys.stdout if self.file is None else self.file

    def start(self) -> None:
        """Start to measure the time."""
        self._start = self._mark_time = self._drawn = time.perf_counter()
        self._mark_step = self._mark_samples = 0

    def advance(self, step: int, samples: int = 0) -> None:
        """Set the number of finished steps; a live line is redrawn with the values of the last ``update``.

        Args:
            step: Number of finished steps.
            samples: Number of samples in the last step. Default: 0.
        """
        self.step = step
        self.samples += samples
        if self.live and self.figures:
            now = time.perf_counter()
            if now - self._drawn > _REDRAW:
                self._draw(self._line(now), now)

    def update(self, current_num: int, values: Any = ()) -> None:
        """Show values; the line of the last step stays.

        Args:
            current_num: Number of finished steps.
            values: Pairs of name and value. Default: ().
        """
        self.show(int(current_num), values, last=current_num == self.num)

    def show(self, step: int, figures: Any, last: bool) -> None:
        """Show values; the ``last`` line of a pass stays.

        Args:
            step: Number of finished steps.
            figures: Pairs of name and value.
            last: Whether this is the last line of the pass.
        """
        if last and not self.live and self.step == step == self._mark_step:
            return  # data of unknown length ended where a line was due anyway
        self.step, self.figures = step, [(name, value) for name, value in figures]
        now = time.perf_counter()
        if self.step > self._mark_step:
            spent = max(now - self._mark_time, 1e-9)
            self._pace, self._rate = spent / (self.step - self._mark_step), (self.samples - self._mark_samples) / spent
            self._mark_time, self._mark_step, self._mark_samples = now, self.step, self.samples
        if self.live:
            self._draw(self._line(now, last), now)
            if last:
                self.close()
        elif self.verbose:
            self._write(" - ".join(self._parts(now, last)) + "\n")

    def _parts(self, now: float, last: bool) -> list[str]:
        """Return the parts of the line, the least important last."""
        digits = 3 if self.num is None else len(str(self.num))
        head = f"{self.name} {self.step:{digits}d}" + ("" if self.num is None else f"/{self.num}")
        parts = [head, *(f"{name}: {shown(value)}" for name, value in self.figures), f"{duration(self._pace)}/step"]
        if self.samples:
            parts.append(f"{self._rate:,.0f} samples/s" if self._rate >= 10 else f"{self._rate:.2f} samples/s")
        if self.num is not None and not last and self.step < self.num:
            left = self._pace * (self.num - self.step) - (now - self._mark_time)
            parts.append(f"ETA {duration(left) if left >= 1 else '0s'}")
        elif last and self.step > 1:
            parts.append(duration(now - self._start))
        return parts

    def _line(self, now: float, last: bool = False) -> str:
        """Return the live line, cut to the width of the terminal."""
        parts = self._parts(now, last)
        room = terminal.width()
        if self.num:
            if self.samples and room - len(" - ".join(parts)) < 13:
                parts.remove(f"{duration(self._pace)}/step")  # redundant with samples/s
            self._bar = min(self._bar, room - len(" - ".join(parts)) - 3)  # one that grows and shrinks is hard to read
            if self._bar >= 8:
                parts[0] += f" [{_bar(self.step / self.num, self._bar)}]"
        while len(parts) > 1 and len(" - ".join(parts)) > room:
            parts.pop()
        return " - ".join(parts)[: max(room, 1)]

    def _draw(self, line: str, now: float) -> None:
        self._write("\r" + line.ljust(self._width))
        self._width, self._drawn = len(line), now

    def _write(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()

    def close(self) -> None:
        """End a live line."""
        if self._width:
            self._write("\n")
            self._width = 0


def _bar(share: float, width: int) -> str:
    full = min(int(share * width), width)
    return "=" * full if full == width else "=" * full + ">" + "." * (width - full - 1)


class ProgBarLogger(Callback):
    """Callback that prints the progress of a run; ``Model`` adds one unless ``verbose`` is 0.

    A line holds the loss of its step, the metrics so far and the speed since the previous line.

    Args:
        log_freq: Number of steps between two lines. Default: 1.
        verbose: 0: nothing; 1: one line that is redrawn, or lines where stdout is no terminal; 2: lines; 3: lines with
            the average times to read and to process a batch. Default: 2.

    Examples:
        >>> bireme.callbacks.ProgBarLogger(log_freq=10).log_freq
        10
    """

    def __init__(self, log_freq: int = 1, verbose: int = 2):
        super().__init__()
        errors.check_number("ProgBarLogger(log_freq)", log_freq)
        self.log_freq, self.verbose = max(int(log_freq), 1), verbose
        self.epochs: int | None = None
        self.steps: int | None = None
        self.progbar: Any = None
        self._metrics: list[str] = []
        self._samples = 0
        self._reader = self._batch = self._since = 0.0
        self._timed = 0

    # ------------------------------------------------------------ one pass

    def _begin(self, steps: int | None, metrics: list[str], title: str) -> None:
        self.steps, self._metrics, self._samples = steps, list(metrics), 0
        self._reader = self._batch = 0.0
        self._timed = 0
        if self.verbose:
            say(title)
            self.progbar = ProgressBar(steps or None, verbose=1 if self.verbose == 1 else 2)
        self._since = time.perf_counter()

    def _batch_begin(self) -> None:
        if self.verbose == 3:
            now = time.perf_counter()
            self._reader, self._since = self._reader + now - self._since, now

    def _batch_end(self, step: int, logs: dict | None) -> None:
        samples = (logs or {}).get("batch_size", 1)
        self._samples += samples
        if not self.verbose:
            return
        if self.verbose == 3:
            now = time.perf_counter()
            self._batch, self._since, self._timed = self._batch + now - self._since, now, self._timed + 1
        self.progbar.advance(step + 1, samples)
        if (step + 1) % self.log_freq == 0 and step + 1 != self.steps:
            self._show(logs)

    def _show(self, logs: dict | None, last: bool = False) -> None:
        figures = [(name, logs[name]) for name in self._metrics if logs is not None and name in logs]
        if self.verbose == 3 and self._timed:
            n, both = self._timed, self._reader + self._batch
            figures += [
                ("avg_reader_cost", f"{self._reader / n:.5f} sec"), ("avg_batch_cost", f"{both / n:.5f} sec"),
                ("ips", f"{self._samples / max(both, 1e-9):.5f} samples/sec"),
            ]  # fmt: skip
        self.progbar.show(self.progbar.step, figures, last)

    def _end(self, logs: dict | None) -> None:
        if self.verbose and self.progbar is not None:
            if self.progbar.step:
                self._show(logs, last=True)
            self.progbar.close()

    def end_line(self) -> None:
        """End a live line that an error interrupts."""
        if self.progbar is not None:
            self.progbar.close()

    # ------------------------------------------------------------ training

    def on_train_begin(self, logs: dict | None = None) -> None:
        self.epochs = self.params.get("epochs")
        if self.verbose:
            say(
                "The loss value printed in the log is the current step, "
                "and the metric is the average value of previous steps."
            )

    def on_epoch_begin(self, epoch: int | None = None, logs: dict | None = None) -> None:
        self._begin(self.params.get("steps"), self.params.get("metrics", []), f"Epoch {(epoch or 0) + 1}/{self.epochs}")

    def on_train_batch_begin(self, step: int, logs: dict | None = None) -> None:
        self._batch_begin()

    def on_train_batch_end(self, step: int, logs: dict | None = None) -> None:
        self._batch_end(step, logs)

    def on_epoch_end(self, epoch: int, logs: dict | None = None) -> None:
        self._end(logs)

    # ------------------------------------------------------------ evaluation and prediction

    def on_eval_begin(self, logs: dict | None = None) -> None:
        logs = logs or {}
        self._begin(logs.get("steps"), logs.get("metrics", []), "Eval begin...")

    def on_eval_batch_begin(self, step: int, logs: dict | None = None) -> None:
        self._batch_begin()

    def on_eval_batch_end(self, step: int, logs: dict | None = None) -> None:
        self._batch_end(step, logs)

    def on_eval_end(self, logs: dict | None = None) -> None:
        self._end(logs)
        if self.verbose:
            say(f"Eval samples: {self._samples}")

    def on_predict_begin(self, logs: dict | None = None) -> None:
        self._begin((logs or {}).get("steps"), [], "Predict begin...")

    def on_predict_batch_begin(self, step: int, logs: dict | None = None) -> None:
        self._batch_begin()

    def on_predict_batch_end(self, step: int, logs: dict | None = None) -> None:
        self._batch_end(step, logs)

    def on_predict_end(self, logs: dict | None = None) -> None:
        self._end(logs)
        if self.verbose:
            say(f"Predict samples: {self._samples}")
