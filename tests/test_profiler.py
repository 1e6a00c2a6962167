"""Profiler: states, what is recorded and under which names, files that are read again, and nothing left behind."""

import gzip
import json
import re
import threading
from time import perf_counter

import numpy as np
import pytest

import bireme
from bireme import nn, profiler
from bireme.core.run import device_trace, explain, lookup
from bireme.profiler import Profiler, ProfilerState, RecordEvent, SortedKeys, SummaryView, perfetto
from bireme.profiler import TracerEventType as T
from bireme.profiler.timer import Timer


def nothing(p):
    pass


def train(steps, profile=None, width=8):
    bireme.seed(0)
    net = nn.Sequential(nn.Linear(width, 16), nn.ReLU(), nn.Linear(16, 1))
    optimizer = bireme.optimizer.SGD(0.1, parameters=net.parameters())
    data = bireme.io.TensorDataset([bireme.ones([steps * 4, width])])
    for (x,) in bireme.io.DataLoader(data, batch_size=4):
        loss = (net(x) ** 2).mean()
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
        if profile is not None:
            profile.step(num_samples=4)
    return loss.item()


@pytest.fixture(scope="module")
def profile():
    bireme.device.synchronize()  # what other tests left to be run is not in it
    ready = []
    with Profiler(
        scheduler=(1, 3), on_trace_ready=ready.append, record_shapes=True, profile_memory=True, with_flops=True
    ) as p:
        train(4, p)
    assert ready == [p]
    return p.result


def named(result, kind):
    return [e for e in result.events if e.type is kind]


def test_scheduler():
    found = profiler.make_scheduler(closed=1, ready=1, record=2, repeat=2, skip_first=1)
    names = [
        "CLOSED",
        "CLOSED",
        "READY",
        "RECORD",
        "RECORD_AND_RETURN",
        "CLOSED",
        "READY",
        "RECORD",
        "RECORD_AND_RETURN",
        "CLOSED",
        "CLOSED",
    ]
    assert [found(i).name for i in range(11)] == names
    for arguments, message in [
        ({"record": 0}, "make_scheduler(record): expected a positive number of steps, got 0"),
        ({"closed": -1}, "make_scheduler(closed): expected a non-negative integer, got -1"),
    ]:
        with pytest.raises(ValueError) as e:
            profiler.make_scheduler(**{"closed": 0, "ready": 0, "record": 1, **arguments})
        assert str(e.value).startswith(message)


def test_a_profile_for_each_period():
    ready = []
    scheduler = profiler.make_scheduler(closed=1, ready=0, record=1, repeat=2)
    with Profiler(scheduler=scheduler, on_trace_ready=lambda p: ready.append(p.result)) as p:
        train(5, p)
    steps = [[e.name for e in named(result, T.ProfileStep)] for result in ready]
    assert steps == [["ProfileStep#1"], ["ProfileStep#3"]]
    assert p.current_state is ProfilerState.CLOSED


def test_events(profile):
    assert [e.name for e in named(profile, T.ProfileStep)] == ["ProfileStep#1", "ProfileStep#2"]
    assert [e.name for e in named(profile, T.Backward)] == ["Tensor.backward"] * 2
    assert [e.name for e in named(profile, T.Optimization)] == ["SGD.step"] * 2
    assert len(named(profile, T.Dataloader)) == 2
    outer, inner = named(profile, T.Forward), named(profile, T.Layer)
    assert len(outer) == 2 and [e.name.split()[0] for e in inner] == ["Linear", "ReLU", "Linear"] * 2
    steps = named(profile, T.ProfileStep)
    for e in outer + inner:
        assert any(s.start <= e.start and e.end <= s.end for s in steps)


def test_operators_have_layers_lines_shapes_and_flops(profile):
    operators = named(profile, T.Operator)
    products = [e for e in operators if e.name == "matmul"]
    assert [e.args["layer"].split(" / ")[-1].split()[0] for e in products[:2]] == ["Linear", "Linear"]
    assert (
        products[0].args["layer"].startswith("Sequential ")
        and products[0].args["shapes"] == "float32[4, 8], float32[8, 16]"
    )
    assert products[0].args["flops"] == 2 * 4 * 8 * 16
    gradients = [e for e in operators if e.name == "matmul.grad"]
    assert {e.args["layer"] for e in gradients} == {"Tensor.backward"}
    assert sorted(e.args["flops"] for e in gradients[:2]) == [2 * 2 * 4 * 16, 2 * 4 * 8 * 16]
    assert all(e.args["layer"] == "SGD.step" for e in operators if e.name.startswith("sgd"))
    assert {re.sub(r":\d+", "", e.args["line"]) for e in operators} == {"test_profiler.py"}
    programs = named(profile, T.Program)
    for p in programs:  # their time is shared by their operators
        own = [e for e in operators if p.start <= e.start and e.end <= p.end]
        assert sum(e.duration for e in own) == pytest.approx(p.duration, abs=len(own))
        assert len(own) == p.args["ops"]


def test_operators_one_by_one_are_measured():
    bireme.set_flags({"FLAGS_op_at_once": True})
    try:
        with Profiler(on_trace_ready=nothing) as p:
            x = bireme.ones([4]) * 2
            x.tanh()
    finally:
        bireme.set_flags({"FLAGS_op_at_once": False})
    assert [e.args["ops"] for e in named(p.result, T.Program)] == [1] * len(named(p.result, T.Operator))


def test_memory(profile):
    assert len(profile.memory) >= 2 and all(n > 0 for _, n in profile.memory)
    assert [t for t, _ in profile.memory] == sorted(t for t, _ in profile.memory)


def test_ranges_of_the_user():
    event = RecordEvent("by hand")
    assert not profiler.utils.in_profiler_mode()
    event.begin()
    event.end()

    @RecordEvent("decorated", T.PythonOp)
    def twice(n):
        return n if n == 0 else twice(n - 1)

    with Profiler(on_trace_ready=nothing) as p:
        assert profiler.utils.in_profiler_mode()
        with RecordEvent("outer"):
            event.begin()
            event.end()
        event.end()
        twice(1)
        thread = threading.Thread(target=twice, args=(0,), name="other")
        thread.start()
        thread.join()
    assert [e.name for e in named(p.result, T.PythonUserDefined)] == ["outer", "by hand"]
    assert [e.track for e in named(p.result, T.PythonOp)] == ["thread MainThread"] * 2 + ["thread other"]
    with pytest.raises(ValueError, match=r"RecordEvent\(event_type\): expected one of Backward, .*, got Kernel"):
        RecordEvent("a", T.Kernel)


def test_compilations_are_events():
    x = bireme.rand([300, 300])
    bireme.set_flags({"FLAGS_interpret": False})
    try:
        with Profiler(on_trace_ready=nothing) as p:
            (bireme.matmul(x, x) + 0.12345).sum().item()
    finally:
        bireme.set_flags({"FLAGS_interpret": True})
    (compiled,) = named(p.result, T.Compile)
    assert compiled.duration > 0 and "test_profiler.py" in compiled.name
    assert "Compilations" in p.result.summary()


def test_nothing_is_left_behind():
    own = [
        (lookup, "execute"), (explain, "compiled"), (nn.Layer, "__call__"), (bireme.Tensor, "backward"),
        (bireme.optimizer.Optimizer, "step"), (bireme.io.loader._InlineIterator, "__next__"),
    ]  # fmt: skip
    before = [vars(owner)[name] for owner, name in own]
    with pytest.raises(ZeroDivisionError), Profiler(on_trace_ready=nothing):
        assert all(vars(owner)[name] is not b for (owner, name), b in zip(own, before, strict=True))
        raise ZeroDivisionError
    with pytest.raises(KeyError), Profiler(on_trace_ready=lambda p: {}["x"]):
        pass
    with pytest.raises(ZeroDivisionError):
        Profiler(scheduler=lambda step: 1 / 0)
    assert [vars(owner)[name] for owner, name in own] == before
    assert profiler.events.state.recording is None and not profiler.utils.in_profiler_mode()
    assert not [t for t in threading.enumerate() if t.name == "bireme profiler"]
    with Profiler(timer_only=True):
        assert vars(lookup)["execute"] is before[0]


def test_values_are_the_same_with_and_without():
    plain = train(3)
    with Profiler(on_trace_ready=nothing) as p:
        assert train(3, p) == plain


def test_one_profiler_at_a_time():
    with Profiler(on_trace_ready=nothing):
        with pytest.raises(RuntimeError, match=r"Profiler.start\(\): expected no other profiler to be started"):
            Profiler(on_trace_ready=nothing).start()
        assert profiler.utils.in_profiler_mode()
    p = Profiler(on_trace_ready=nothing)
    p.stop()
    with pytest.raises(RuntimeError, match="expected a profile that is finished, got none"):
        p.summary()


@pytest.mark.parametrize("ending", ["json", "pb"])
def test_files_are_read_again(profile, tmp_path, ending):
    profile.save(tmp_path / "trace", ending)
    found = profiler.load_profiler_result(tmp_path / "trace")
    key = [(e.name, e.type, e.start, e.end, e.track, e.args) for e in profile.events]
    assert sorted(map(str, key)) == sorted(str((e.name, e.type, e.start, e.end, e.track, e.args)) for e in found.events)
    assert found.memory == profile.memory
    assert found.summary(views=[SummaryView.OperatorView]) == profile.summary(views=SummaryView.OperatorView)


def test_chrome_trace(profile, tmp_path):
    profile.save(tmp_path / "trace.json")
    data = json.loads((tmp_path / "trace.json").read_text())
    rows = data["traceEvents"]
    slices = [row for row in rows if row["ph"] == "X"]
    assert {row["ph"] for row in rows} == {"M", "X", "C"} and len(slices) == len(profile.events)
    assert all(row["dur"] >= 0 and row["pid"] == 1 and isinstance(row["tid"], int) for row in slices)
    names = {row["tid"]: row["args"]["name"] for row in rows if row.get("name") == "thread_name"}
    assert set(names) == {row["tid"] for row in slices} and "thread MainThread" in names.values()


def test_protobuf_is_perfettos(profile, tmp_path):
    profile.save(tmp_path / "trace.pb", "pb")
    packets = [value for field, value in perfetto._fields((tmp_path / "trace.pb").read_bytes()) if field == 1]
    depth, last = {}, 0
    for packet in packets:
        parts = dict(perfetto._fields(packet))
        assert parts[10] == 1  # a sequence of packets
        if 11 not in parts:
            continue
        assert parts[8] >= last  # in the order of time
        last, event = parts[8], dict(perfetto._fields(parts[11]))
        depth[event[11]] = depth.get(event[11], 0) + {1: 1, 2: -1, 4: 0}[event[9]]
        assert depth[event[11]] >= 0
    assert set(depth.values()) == {0}


def test_damaged_files(tmp_path):
    good = perfetto.encoded([perfetto.Slice("t", 0, 5, "a", "Operator", {}), perfetto.Sample(3, 7)])
    assert len(perfetto.decoded(good)) == 2
    for data in (
        b"",
        b"{}",
        b'{"traceEvents": 3}',
        b'{"traceEvents": [{"ph": "X"}]}',
        good[:-3],
        b"\xff" * 40,
        gzip.compress(b"a", mtime=0),
    ):
        (tmp_path / "bad").write_bytes(data)
        with pytest.raises(
            bireme.errors.FileFormatError, match=r"load_profiler_result\(filename\): expected a profile"
        ):
            profiler.load_profiler_result(tmp_path / "bad")
    with pytest.raises(FileNotFoundError, match="which does not exist"):
        profiler.load_profiler_result(tmp_path / "none")


def test_handlers_write_files(tmp_path):
    for made in (profiler.export_chrome_tracing, profiler.export_protobuf):
        with Profiler(on_trace_ready=made(tmp_path / "new" / "folder", "worker")):
            (bireme.ones([2]) + 1).tolist()
    names = sorted(path.name for path in (tmp_path / "new" / "folder").iterdir())
    assert [re.sub(r"time_[\d_]+", "time", name) for name in names] == [
        "worker_time.paddle_trace.json",
        "worker_time.paddle_trace.pb",
    ]
    assert all(profiler.load_profiler_result(tmp_path / "new" / "folder" / name).events for name in names)


def test_default_handler_writes_to_profiler_log(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with Profiler():
        (bireme.ones([2]) + 1).tolist()
    assert len(list((tmp_path / "profiler_log").iterdir())) == 1


def test_summary(profile, capsys):
    p = Profiler(on_trace_ready=nothing)
    p.profiler_result = profile
    p.summary(time_unit="us", thread_sep=True)
    told = capsys.readouterr().out
    titles = re.findall(r"^([A-Z][^\n(]*)(?: \(times in us\))?$", told, re.MULTILINE)
    for title in ("Devices", "Overview", "Layers: time of their operators", "Operators", "Programs", "Memory"):
        assert title in titles
    assert "Model: time of the host, thread MainThread (times in us)" in told
    assert re.search(r"^Lines: .*\nname.*\ntest_profiler.py:\d+ ", told, re.MULTILINE)
    assert "Lines" not in profile.summary(op_detail=False) and "Operators" not in profile.summary(
        views=SummaryView.UDFView
    )
    assert profile.summary(views=SummaryView.UDFView) == "nothing was recorded"
    rows = profiler.tables.tables(profile, SortedKeys.CPUMax, True, False, "ns", [SummaryView.OperatorView])[0]
    longest = [float(row["max"]) for row in rows]
    assert longest == sorted(longest, reverse=True) and rows[0]["calls"] >= 2
    assert sum(float(row["total"]) for row in rows) == sum(e.duration for e in named(profile, T.Operator))
    for arguments, message in [
        ({"time_unit": "h"}, "summary(time_unit): expected 's', 'ms', 'us' or 'ns', got 'h'"),
        ({"sorted_by": "max"}, "summary(sorted_by): expected one of SortedKeys, got 'max'"),
        ({"views": ["all"]}, "summary(views): expected one or several of SummaryView, got 'all'"),
    ]:
        with pytest.raises(ValueError) as e:
            profile.summary(**arguments)
        assert str(e.value).startswith(message)


def test_report_is_one_file(profile, tmp_path):
    profile.events[0].name = "<script>alert(1)</script>"
    profile.report(tmp_path / "profile.html")
    told = (tmp_path / "profile.html").read_text()
    assert "<svg" in told and "Lines: time of their operators" in told and "Memory in use" in told
    assert "<script" not in told and not re.search(r"(src|href)=|https?://|@import|url\(", told)


def test_step_info():
    timer = Timer()
    assert timer.info(None) == ""
    timer._steps = [(0.5, 0.1, 4), (0.5, 0.3, 4)]
    assert timer.info("images") == " reader_cost: 0.20000 s batch_cost: 0.50000 s ips: 8.000 images/s"
    timer._steps += [(0.25, 0.0, None)] * 9
    assert timer.info("images") == " batch_cost: 0.25000 s ips: 4.000 steps/s"
    assert timer.summary().splitlines()[:2] == ["Reader Ratio: 0.000%", "Time Unit: s, IPS Unit: steps/s"]
    with Profiler(timer_only=True) as p:
        train(2, p)
        told = p.step_info("rows")
    assert re.fullmatch(r" reader_cost: [\d.]+ s batch_cost: [\d.]+ s ips: [\d.]+ rows/s", told)


def test_timer_alone_prints_a_table(capsys):
    with Profiler(timer_only=True) as p:
        for _ in range(12):
            p.step(3)
    assert "batch_cost" in capsys.readouterr().out and p.profiler_result is None


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {"scheduler": (3, 2)},
            "Profiler(scheduler): expected a function of the step, or a pair (start, end) with start < end",
        ),
        ({"targets": ["cpu"]}, "Profiler(targets): expected some of ProfilerTarget, got 'cpu'"),
        ({"on_trace_ready": 3}, "Profiler(on_trace_ready): expected a function, got 3"),
    ],
)
def test_arguments(arguments, message):
    with pytest.raises(ValueError) as e:
        Profiler(**arguments)
    assert str(e.value).startswith(message)
    with pytest.raises(ValueError, match=r"save\(format\): expected 'json', 'pb' or 'html', got 'csv'"):
        profiler.ProfilerResult([], [], {}).save("x", "csv")


def test_it_costs_little():
    """In Python work: what is added to each program and layer is small beside recording it."""
    net = nn.Sequential(*[nn.Linear(8, 8) for _ in range(10)])
    x = bireme.ones([2, 8])

    def seconds():
        start = perf_counter()
        for _ in range(20):
            net(x).sum().item()
        return perf_counter() - start

    seconds()
    plain, profiled = [], []
    for _ in range(7):
        plain.append(seconds())
        with Profiler(on_trace_ready=nothing):
            profiled.append(seconds())
    assert min(profiled) < 1.6 * min(plain)  # a bound that noise does not break; docs/profiling.md has the figures


def test_a_device_trace_has_the_hosts_clock():
    trace = device_trace.Trace()
    np.testing.assert_equal(trace.stop(), [])  # there is no accelerator here, and the folder is gone
    kernel = device_trace.Kernel("/device:GPU:0", "stream 7", "fusion", 10, 30)
    copy = kernel._replace(name="MemcpyH2D")
    with Profiler(on_trace_ready=nothing) as p:
        p._recording.kernels = [kernel, copy]
    assert [e.name for e in named(p.result, T.Kernel)] == ["fusion"] and named(p.result, T.Memcpy)[0].duration == 20
    assert "Kernels" in p.result.summary() and "Copies of memory" in p.result.summary()
