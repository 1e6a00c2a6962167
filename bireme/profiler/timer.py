"""Times of steps and of reading their data: what `step_info` says, and the table at the end."""

from __future__ import annotations

from time import perf_counter


class Timer:
    """Sums since the last `info`, and of all steps after the first ten, which are left out of the table."""

    SKIPPED = 10

    def __init__(self) -> None:
        self._began = perf_counter()
        self._steps: list[tuple[float, float, int | None]] = []  # seconds, seconds of reading, samples
        self._told = 0
        self._reading = 0.0

    def reader(self, seconds: float) -> None:
        """Data were read."""
        self._reading += seconds

    def step(self, samples: int | None) -> None:
        """A step is over."""
        now = perf_counter()
        self._steps.append((now - self._began, self._reading, samples))
        self._began, self._reading = now, 0.0

    def info(self, unit: str | None) -> str:
        """The means since the last call, in Paddle's words."""
        some, self._told = self._steps[self._told :], len(self._steps)
        if not some:
            return ""
        seconds, reading = sum(s for s, _, _ in some), sum(r for _, r, _ in some)
        counted = all(n is not None for _, _, n in some)
        ips = sum(n or 0 for _, _, n in some) / seconds if counted else len(some) / seconds
        what = f"{unit or 'samples'}/s" if counted else "steps/s"
        told = f" reader_cost: {reading / len(some):.5f} s" if reading else ""
        return f"{told} batch_cost: {seconds / len(some):.5f} s ips: {ips:.3f} {what}"

    def summary(self) -> str:
        """The table of all steps after the first ten, empty if there are none."""
        some = self._steps[self.SKIPPED :]
        if not some:
            return ""
        counted = all(n is not None for _, _, n in some)
        rows = {
            "reader_cost": [r for _, r, _ in some],
            "batch_cost": [s for s, _, _ in some],
            "ips": [(n if counted and n is not None else 1) / s for s, _, n in some],
        }
        total = sum(rows["batch_cost"])
        lines = [f"Reader Ratio: {100 * sum(rows['reader_cost']) / total:.3f}%"]
        lines.append(f"Time Unit: s, IPS Unit: {'samples/s' if counted else 'steps/s'}")
        lines.append(f"{'':12} {'avg':>12} {'max':>12} {'min':>12}")
        for name, values in rows.items():
            mean = sum(n or 0 for _, _, n in some) / total if name == "ips" and counted else sum(values) / len(values)
            mean = len(some) / total if name == "ips" and not counted else mean
            lines.append(f"{name:12} {mean:12.5f} {max(values):12.5f} {min(values):12.5f}")
        return "\n".join(lines)
