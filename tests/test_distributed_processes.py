"""Several processes on this machine: collectives, data parallel training, failures, and the launcher.

The processes are forked from one that has imported the package, so that one more costs little.
"""

import contextlib
import ctypes
import json
import multiprocessing
import os
import re
import shlex
import signal
import socket
import stat
import struct
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from multiprocessing import AuthenticationError
from multiprocessing.connection import Client

import distributed_programs as programs
import numpy as np
import pytest
import yaml

from bireme import distributed as dist
from bireme.core.processes import quiet, watch
from bireme.distributed import world
from bireme.distributed.launch import job, main, members, stopped

HERE = os.path.dirname(os.path.abspath(__file__))
HOST = os.uname().nodename


@pytest.fixture(scope="module")
def start():
    """Run a function of `distributed_programs` in several processes."""
    multiprocessing.get_context("forkserver").set_forkserver_preload(["bireme", "pytest"])

    def spawn(function, *args, count=2):
        return dist.spawn(function, args, nprocs=count, start_method="forkserver")

    return spawn


def test_collectives(start):
    start(programs.collectives)


def test_a_call_that_does_not_fit_is_an_error_in_all_processes(start):
    start(programs.wrong_calls)


def test_loss_curves_do_not_depend_on_the_number_of_processes(start, tmp_path):
    found = {}
    for count in (1, 2, 4):
        path = tmp_path / f"{count}.json"
        start(programs.losses, 4, str(path), count=count)
        found[count] = json.loads(path.read_text())
    for count in (2, 4):
        for name in ("mlp", "resnet"):
            assert len(found[count][name]) == 4
            np.testing.assert_allclose(found[count][name], found[1][name], rtol=0, atol=1e-5)


def test_fit_that_is_preempted_resumes_with_another_number_of_processes(start, tmp_path):
    expected = programs.fitted(str(tmp_path / "whole"))
    with pytest.raises(RuntimeError, match="SystemExit: 101"):
        start(programs.fitted, str(tmp_path / "parts"), 8)
    assert [path.name for path in (tmp_path / "parts").iterdir() if "00000008" in path.name]
    for one, other in zip(programs.fitted(str(tmp_path / "parts")), expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-5)


@pytest.mark.parametrize(
    ("how", "lines"),
    [
        ("kill", ["all_reduce(float32[1], SUM) at {file} in rank 0 on {host}, among ranks [0, 1]: "
                  "rank 1 on {host} is gone (ended by signal 9)"]),
        ("stop", ["all_reduce(float32[1], SUM) at {file} in rank 0 on {host}, among ranks [0, 1]: "
                  "rank 1 on {host} is gone (stopped by a signal for 1 s)"]),
        ("slow", ["all_reduce(float32[1], SUM) at {file} in rank 0 on {host}, among ranks [0, 1]: "
                  "has waited 1 s for rank 1 on {host}, which is at {file}"]),
        ("raise", ["all_reduce(float32[1], SUM) at {file} in rank 0 on {host}, among ranks [0, 1]: "
                   "rank 1 on {host} is gone (ValueError: of rank 1)"]),
        ("return", ["all_reduce(float32[1], SUM) at {file} in rank 0 on {host}, among ranks [0, 1]: "
                    "rank 1 on {host} is gone (ended)"]),
        ("groups", [f"barrier() at {{file}} in rank {r} on {{host}}, among ranks [0, 1]: "
                    f"rank {1 - r} on {{host}} waits in barrier() at {{file}}" for r in range(2)]),
        ("receive", [f"recv(float32[1], src={1 - r}) at {{file}} in rank {r} on {{host}}, among ranks [{1 - r}]: "
                     f"rank {1 - r} on {{host}} waits in recv(float32[1], src={r}) at {{file}}" for r in range(2)]),
    ],
)  # fmt: skip
def test_who_waits_in_vain_says_for_whom(start, monkeypatch, tmp_path, how, lines):
    monkeypatch.setattr(stopped, "PATIENCE", 1.0)
    path = tmp_path / "errors"
    path.touch()
    begin = time.monotonic()
    with pytest.raises(RuntimeError, match="spawn: process") as error:
        start(programs.ends, how, str(path))
    assert time.monotonic() - begin < 30
    assert how != "raise" or "ValueError: of rank 1" in str(error.value)  # and not the error that came of it
    told = path.read_text()
    for line in lines:
        words = line.format(file="distributed_programs.py:", host=HOST).split("distributed_programs.py:")
        assert any(all(word in text for word in words) for text in told.splitlines()), (line, told)


def test_calls_of_functions_in_other_processes(start, tmp_path):
    path = tmp_path / "told"
    with pytest.raises(RuntimeError, match="process 1: expected an end without error"):  # asked to end by the other
        start(programs.calls, str(path))
    assert path.read_text() == "told"


@pytest.mark.parametrize("program", [programs.by_hand, programs.calls_by_hand])
def test_processes_that_were_started_by_other_means(start, program):
    context = multiprocessing.get_context("forkserver")
    address = f"127.0.0.1:{world.free_ports(1)[0]}"
    processes = [context.Process(target=program, args=(rank, address)) for rank in range(2)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
    assert [process.exitcode for process in processes] == [0, 0]


def test_the_service_outlives_the_first_process(start, tmp_path):
    """Without a launcher that one started it; when it is killed, the other names it."""
    path, context = tmp_path / "errors", multiprocessing.get_context("forkserver")
    path.touch()
    address = f"127.0.0.1:{world.free_ports(1)[0]}"
    processes = [context.Process(target=programs.by_hand_killed, args=(r, address, str(path))) for r in range(2)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
    assert [process.exitcode for process in processes] == [-signal.SIGKILL, 1]
    gone = (
        rf"all_reduce\(float32\[1\], SUM\) at .* in rank 1 on {HOST}, .*: rank 0 on {HOST} is gone \(without a word\)"
    )
    assert re.search(gone, path.read_text())


def test_a_process_whose_launcher_is_gone_says_so_and_ends(monkeypatch, capfd):
    """The launcher's end of a pipe closes with it."""

    class Connection:
        rank = 1
        name = "rank {} on node1".format
        tell = told = staticmethod(lambda *given: {})

    kept, held = os.pipe()
    ended = threading.Event()
    monkeypatch.setattr(watch, "_starter", lambda: kept)
    monkeypatch.setattr(os, "_exit", lambda code: ended.set())
    watcher = watch.Watcher(Connection())
    watcher.waits = watch.Wait("key", "all_reduce() at train.py:3", [0, 1], 10.0)
    os.close(held)
    assert ended.wait(10)
    os.close(kept)
    watcher.leave(10)
    told = (
        "all_reduce() at train.py:3 in rank 1 on node1, among ranks [0, 1]: the process that started this one is gone\n"
    )
    assert told in capfd.readouterr().err


def test_deadlocks():
    """A process waits forever if one of those it waits for does so in another call."""
    calls = {0: ["a", "", [0, 1]], 1: ["b", "", [1, 2]], 2: ["c", "", [0, 2]]}
    assert watch.deadlocked(calls) == [0, 1, 2]
    assert watch.deadlocked({**calls, 2: ["b", "", [1, 2]]}) == []  # 1 and 2 meet, then 1 may come to 0
    assert watch.deadlocked({0: calls[0], 1: calls[1]}) == []  # 2 may still come
    assert watch.deadlocked({}) == []


@pytest.fixture
def handlers(monkeypatch):
    """The launcher's handlers of signals stay away from the process that runs the tests."""
    monkeypatch.setattr(signal, "signal", lambda *args: None)


def test_launch(handlers, monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("FLAGS_selected_gpus", "")
    program = os.path.join(HERE, "distributed_programs.py")
    with pytest.raises(SystemExit) as end:
        main.run(["--devices=3,5", f"--log_dir={tmp_path}", program, "--epochs=3"])  # a process for each device
    logs = [(tmp_path / f"workerlog.{rank}").read_text() for rank in range(2)]
    assert end.value.code == 0, logs
    lines = [log.removesuffix("\n") for log in logs]  # what the program has written, and nothing else
    shown = capsys.readouterr().out
    assert lines[0] in shown and lines[1] not in shown
    for rank, line in enumerate(lines):
        total, device, arguments, found = json.loads(line)
        assert total == 3 and device == [3, 5][rank] and arguments == ["--epochs=3"]
        ranks = [found[f"PADDLE_{name}"] for name in ("TRAINER_ID", "LOCAL_RANK", "GLOBAL_RANK", "RANK_IN_NODE")]
        sizes = [found[f"PADDLE_{name}"] for name in ("TRAINERS_NUM", "LOCAL_SIZE", "GLOBAL_SIZE", "NNODES")]
        assert ranks == [str(rank)] * 4 and sizes == ["2", "2", "2", "1"]
        places = found["PADDLE_TRAINER_ENDPOINTS"].split(",")
        assert len(set(places)) == 2 and found["PADDLE_CURRENT_ENDPOINT"] == places[rank]
        assert found["PADDLE_LOG_DIR"] == str(tmp_path)


def command(text):
    return [sys.executable, "-c", f"import os, sys, time; rank = int(os.environ['PADDLE_TRAINER_ID']); {text}"]


@pytest.mark.parametrize(
    ("text", "restarts", "any_failure", "code", "tries"),
    [
        ("sys.exit('in vain' if rank else 0)", 2, False, 1, 1),
        ("sys.exit(3 * rank)", 1, True, 3, 2),
        ("sys.exit(0 if 'PADDLE_RESTART_COUNT' in os.environ else 101)", 3, False, 0, 2),
        ("os.kill(os.getpid(), 15) if rank else time.sleep(60)", 0, False, 128 + 15, 1),
    ],
)
def test_exit_codes_and_restarts(handlers, monkeypatch, tmp_path, capfd, text, restarts, any_failure, code, tries):
    monkeypatch.setattr(job, "GRACE", 0.2)
    assert job.run(command(text), 2, job.Nodes(None, 0, 1), str(tmp_path), restarts, any_failure) == code
    told = capfd.readouterr().err
    assert told.count("launch: restart") == tries - 1
    if "in vain" in text:
        last = f"rank 1 on {HOST} has failed: exit code 1; the last lines of {tmp_path}/workerlog.1:\n  in vain\n"
        assert f"launch: {last}" in told


@pytest.mark.parametrize(
    ("text", "codes"), [("print(rank)", [0, 0]), ("sys.exit(7) if rank == 2 else time.sleep(60)", [1, 7])]
)
def test_two_machines(handlers, monkeypatch, tmp_path, text, codes):
    """Two launchers, with one and with two processes: their ranks follow each other, and the failure of one ends both."""
    monkeypatch.setattr(job, "GRACE", 0.2)
    master = f"127.0.0.1:{world.free_ports(1)[0]}"

    def launcher(node):
        nodes = job.Nodes(master, node, 2)
        return job.run(
            command(f"print(os.environ['PADDLE_TRAINER_ENDPOINTS']); {text}"),
            node + 1,
            nodes,
            str(tmp_path / str(node)),
            0,
            False,
        )

    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(launcher, range(2))) == codes
    if codes == [0, 0]:
        logs = [tmp_path / "0" / "workerlog.0", *[tmp_path / "1" / f"workerlog.{i}" for i in range(2)]]
        found = [log.read_text().split() for log in logs]
        assert [ranks for _, ranks in found] == ["0", "1", "2"]
        assert len({places for places, _ in found}) == 1 and len(found[0][0].split(",")) == 3


@pytest.mark.parametrize("asked", [b'["accept", null]', b'["lose", 0]', b"no text", b"[1]", b"{}"])
def test_who_asks_no_question_is_not_listened_to(asked):
    machines = members.List("127.0.0.1:0", 1, 1, 0.0)
    with Client(machines._listener.address, authkey=members._key()) as link:
        link.send_bytes(asked)
        with pytest.raises((EOFError, OSError)):
            link.recv_bytes()
    machines.outlast(0)


def test_what_gloo_prints_is_not_shown(capfd):
    """It is written to `std::cout` by C++ while processes meet; before and after that the stream is as ever."""
    library = ctypes.CDLL("libstdc++.so.6")
    stream = ctypes.c_void_p(ctypes.addressof(ctypes.c_char.in_dll(library, "_ZSt4cout")))
    put, flush = library._ZNSo3putEc, library._ZNSo5flushEv

    def write(letter):
        put(stream, ctypes.c_char(letter))
        flush(stream)

    quiet.resume()  # whatever a test of waiting has left
    write(b"a")
    quiet.hush()
    write(b"b")
    sys.stdout.write("c")
    sys.stdout.flush()
    quiet.resume()
    write(b"d")
    assert capfd.readouterr().out == "acd"


STRANGERS = {
    "says nothing": b"",
    "speaks of the web": b"GET / HTTP/1.1\r\n\r\n",
    "promises much": struct.pack("!i", 0x7FFFFFFF) + b"x" * 64,
    "promises more": struct.pack("!iQ", -1, 1 << 60),
    "stops midway": struct.pack("!i", 16) + b"x",
}


def test_strangers_get_nothing_and_end_nothing(monkeypatch):
    """The list of machines takes no notice of who does not know the secret, whatever that one sends, nor waits for it."""
    monkeypatch.setattr(members, "GREETING", 0.3)
    machines = members.List("127.0.0.1:0", 1, 1, 0.0)
    place = machines._listener.address
    strangers = []
    for sent in STRANGERS.values():
        strangers.append(socket.create_connection(place))
        strangers[-1].sendall(sent)
    with pytest.raises(AuthenticationError), Client(place, authkey=b"another"):
        pass
    with Client(place, authkey=members._key()) as link:  # while the strangers are still there
        link.send_bytes(b'["join", null]')
        assert json.loads(link.recv_bytes())[:2] == [0, 1]
        for stranger in strangers:
            stranger.settimeout(10)
            said = b""
            with contextlib.suppress(ConnectionResetError):
                while piece := stranger.recv(256):
                    said += piece
            assert said[4:].startswith(b"#CHALLENGE#") and len(said) < 70  # of Python, with a digest's name since 3.12
            stranger.close()
        link.send_bytes(b'["look", null]')
        assert json.loads(link.recv_bytes()) == ["", False]
        assert machines._machines == [0]
        link.send_bytes(b'["done", null]')
        link.recv_bytes()
    machines.outlast(1)


def test_launchers_of_several_machines_want_a_secret(monkeypatch, capsys, tmp_path):
    monkeypatch.delenv(world.SECRET, raising=False)
    with pytest.raises(SystemExit):
        main.run(["--nnodes", "1:2", "--master", "192.0.2.1:6170", "--rank", "1", __file__])
    assert "expected a secret in BIREME_JOB_SECRET" in capsys.readouterr().err
    assert [members.is_local(a) for a in ("127.0.0.1:1", "[::1]:1", "localhost:1", "0.0.0.0:1", "node:1")] == [
        True, True, True, False, False,
    ]  # fmt: skip
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    made = members._key()
    assert len(made) == 64 and members._key() == made
    folder = tmp_path / f"bireme-{os.getuid()}"
    assert [stat.S_IMODE(path.stat().st_mode) for path in (folder, folder / "launch.key")] == [0o700, 0o600]
    folder.chmod(0o755)
    with pytest.raises(RuntimeError, match="a folder that only its user can read"):
        members._key()


@pytest.mark.parametrize("change", ["lost", "new"])
def test_machines_come_and_go(handlers, monkeypatch, tmp_path, change):
    """A job of one to two machines starts again with those that are there; that is no failure."""
    monkeypatch.setattr(job, "GRACE", 0.2)
    monkeypatch.setattr(members, "RETRY", 0.02)
    master = f"127.0.0.1:{world.free_ports(1)[0]}"
    last = 1 if change == "lost" else 2  # machines with which the program comes to its end
    program = command(
        f"size = int(os.environ['PADDLE_TRAINERS_NUM']); print(size, flush=True); size == {last} or time.sleep(60)"
    )
    joined, started = {}, threading.Event()

    def launcher(node):
        if node == 1 and change == "new":
            assert started.wait(30)
        machines = members.Members(master, node == 0, 1, 2, 0.0 if change == "new" else 60.0, job.own_host)
        joined[node] = machines
        return job.run(program, 1, machines, str(tmp_path / str(node)), 0, False)

    with ThreadPoolExecutor(2) as pool:
        found = [pool.submit(launcher, node) for node in range(2)]
        log = tmp_path / "0" / "workerlog.0"
        while not log.exists() or not log.read_text():
            started.wait(0.02)
        started.set()
        if change == "lost":
            joined[0]._list.patience = 0.0  # nobody else is expected
            joined[1].close()
            with pytest.raises(SystemExit):
                found[1].result(60)
        else:
            assert found[1].result(60) == 0
        assert found[0].result(60) == 0
    assert log.read_text().split() == [str(3 - last), str(last)]


def test_a_job_is_rendered_for_slurm(capfd, tmp_path):
    main.run(
        ["--render", "slurm", "--nnodes", "2", "--devices", "0,1", "--elastic_level", "1", "train.py", "--name", "a b"]
    )
    script = capfd.readouterr().out
    lines = script.splitlines()
    for line in ("--job-name=train", "--nodes=2", "--ntasks-per-node=2", "--gpus-per-node=2", "--signal=TERM@60"):
        assert f"#SBATCH {line}" in lines
    # what it runs: srun is here a program that fails twice
    (tmp_path / "srun").write_text(
        '#!/bin/sh\necho "$PADDLE_RESTART_COUNT $@" >> ran\n[ "$PADDLE_RESTART_COUNT" = 2 ]\n'
    )
    (tmp_path / "srun").chmod(0o755)
    done = subprocess.run(
        ["bash", "-c", script], cwd=tmp_path, env={"PATH": f"{tmp_path}:{os.environ['PATH']}"}, check=False
    )
    ran = (tmp_path / "ran").read_text().splitlines()
    assert done.returncode == 0 and [line[0] for line in ran] == ["0", "1", "2"]
    assert ran[0].endswith("python -u train.py --name a b")


@pytest.mark.parametrize("nnodes", ["1", "3", "2:4"])
def test_a_job_is_rendered_for_kubernetes(capfd, nnodes):
    given = ["--nnodes", nnodes, "--nproc_per_node", "2", "--image", "here/it:1", "--job_id", "My run"]
    main.run(["--render", "kubernetes", *given, "-m", "package.train", "--rate", "0.1"])
    service, run = yaml.safe_load_all(capfd.readouterr().out)
    count = int(nnodes.rpartition(":")[2])
    assert service["kind"] == "Service" and service["spec"]["selector"] == {"job-name": "my-run"}
    assert run["spec"]["completions"] == run["spec"]["parallelism"] == count
    assert run["spec"]["completionMode"] == "Indexed"
    (container,) = run["spec"]["template"]["spec"]["containers"]
    command = shlex.split(container["command"][2])
    assert container["image"] == "here/it:1" and command[:4] == ["exec", "python", "-m", "bireme.distributed.launch"]
    options, rest = main.parse([word.replace("$JOB_COMPLETION_INDEX", "0") for word in command[4:]])
    assert rest == ["-m", "package.train", "--rate", "0.1"]
    assert options["nnodes"] == nnodes and options["nproc_per_node"] == "2"
    assert options.get("master") == (None if nnodes == "1" else "my-run-0.my-run:6170")
    secret = [one["name"] for one in container.get("env", ())]
    assert secret == (["BIREME_JOB_SECRET"] if ":" in nnodes else [])


def test_the_command_line_of_the_launcher(capfd):
    for arguments, message in (
        (["--nproc_per_node", "0", __file__], "expected a number from 1 after --nproc_per_node, got 0"),
        (["--nnodes", "2", __file__], "expected --master HOST:PORT and --rank below 2 with --nnodes 2"),
        (["--nnodes", "3:2", __file__], "expected --nnodes LO:HI with 1 <= LO <= HI, got 3:2"),
        (["--nnodes", "1:2", __file__], "expected --master HOST:PORT and --rank below 2 with --nnodes 1:2"),
        (["--elastic_level", "x", __file__], "expected -1, 0, 1 or 2 after --elastic_level, got x"),
    ):
        with pytest.raises(SystemExit):
            main.run(arguments)
        assert message in capfd.readouterr().err


def test_where_processes_meet_has_to_be_known(monkeypatch):
    monkeypatch.setenv("PADDLE_TRAINERS_NUM", "2")
    monkeypatch.delenv("PADDLE_MASTER", raising=False)
    monkeypatch.delenv("PADDLE_TRAINER_ENDPOINTS", raising=False)
    with pytest.raises(ValueError, match="PADDLE_MASTER: expected the address of the first of 2 processes"):
        dist.init_parallel_env()
