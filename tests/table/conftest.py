"""Prints the slowest rows of the table after a run."""

BUDGET = 0.5  # seconds a row


def pytest_terminal_summary(terminalreporter):
    rows = [
        r
        for reports in terminalreporter.stats.values()
        for r in reports
        if getattr(r, "when", "") == "call" and "test_table.py::test_row[" in r.nodeid
    ]
    slow = sorted(rows, key=lambda r: -r.duration)[:8]
    if slow:
        total, over = sum(r.duration for r in rows), sum(r.duration > BUDGET for r in rows)
        shown = ", ".join(f"{r.nodeid.partition('[')[2][:-1]} {r.duration:.1f} s" for r in slow)
        terminalreporter.write_line(
            f"table: {len(rows)} rows in {total:.0f} s, {over} over {BUDGET} s; slowest: {shown}"
        )
