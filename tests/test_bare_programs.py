"""Programs in files without values: `incubate.distributed.fleet.utils`."""

import types

import numpy as np
import pytest

import bireme
from bireme.files import binary_tensor
from bireme.incubate.distributed.fleet import utils


@pytest.fixture
def program():
    """A program with a parameter, a constant and two inputs; its result's name; arrays to feed."""
    bireme.enable_static()
    main, startup = bireme.static.Program(), bireme.static.Program()
    with bireme.static.program_guard(main, startup):
        x, i = bireme.static.data("x", [None, 4]), bireme.static.data("i", [None, 1], "int64")
        y = bireme.static.nn.fc(x, 3, weight_attr="bare_w", bias_attr="bare_b") + i.astype("float32")
        y = y + bireme.to_tensor(np.arange(3, dtype="float32"))
    bireme.static.Executor().run(startup)
    yield main, y.name
    bireme.disable_static()


FEED = {"x": np.ones((2, 4), "float32"), "i": np.ones((2, 1), "int64")}


def run(program, name):
    return bireme.static.Executor().run(program, feed=FEED, fetch_list=[name])[0]


@pytest.mark.parametrize("is_text", [False, True])
def test_a_program_comes_back_in_both_forms(tmp_path, program, is_text):
    main, name = program
    utils.save_program(main, str(tmp_path / "net"), is_text)
    loaded = utils.load_program(str(tmp_path / "net"), is_text)
    np.testing.assert_array_equal(run(loaded, name), run(main, name))  # parameters are shared by their names
    other = utils.program_type_trans(str(tmp_path), "net", is_text)
    assert other == ("net.bin" if is_text else "net.pbtxt")
    again = utils.load_program(str(tmp_path / other), not is_text)
    np.testing.assert_array_equal(run(again, name), run(main, name))
    assert (b"bare_w" in (tmp_path / "net").read_bytes()) is is_text
    with pytest.raises(ValueError, match=rf"expected .* as is_text says.*\n  hint: pass is_text={is_text}"):
        utils.load_program(str(tmp_path / "net"), not is_text)


@pytest.mark.parametrize("is_text", [False, True])
def test_damaged_programs_are_refused(tmp_path, program, is_text):
    path = tmp_path / "net"
    utils.save_program(program[0], str(path), is_text)
    whole = path.read_bytes()
    rng = np.random.default_rng(0)
    for _ in range(25):
        damaged = bytearray(whole[: rng.integers(1, len(whole))])
        damaged[rng.integers(len(damaged))] ^= int(rng.integers(1, 256))
        path.write_bytes(damaged)
        with pytest.raises(ValueError, match="expected"):
            utils.load_program(str(path), is_text)
    with pytest.raises(FileNotFoundError, match="load_program"):
        utils.load_program(str(tmp_path / "nowhere"))


def test_gradients_are_no_part_of_a_file(tmp_path, program):
    main, name = program
    with bireme.static.program_guard(main, bireme.static.Program()):
        bireme.optimizer.SGD(0.1).minimize(main.var(name).mean())
    with pytest.raises(RuntimeError, match=r"gradients cannot be saved.*\n  hint: save program.clone"):
        utils.save_program(main, str(tmp_path / "net"))
    utils.save_program(main.clone(for_test=True), str(tmp_path / "net"))


def test_programs_are_listed_compared_and_drawn(tmp_path, program):
    main, name = program
    utils.parse_program(main, str(tmp_path))
    kept = (tmp_path / "vars_persistable.log").read_text().splitlines()
    assert kept[0] == "persistable vars:"
    assert [eval(line)["name"] for line in kept[1:]] == ["bare_w", "bare_b"]
    assert eval(kept[1])["shape"] == "(4, 3)"
    ops = [eval(line) for line in (tmp_path / "ops.log").read_text().splitlines()[1:]]
    assert len(ops) == main.num_ops()
    assert eval(ops[-1]["output_arg_names"]) == [name]
    assert utils.check_pruned_program_vars(main, main.clone(for_test=True))
    assert not utils.check_pruned_program_vars(bireme.static.Program(), main)
    utils.graphviz(main.global_block(), str(tmp_path), "drawn")
    drawn = (tmp_path / "drawn.dot").read_text()
    assert drawn.count("-> op_") == sum(len({x.name for x in o.reads}) for o in main.ops)
    assert r"bare_w\nfloat32 [4, 3]" in drawn


def test_a_saved_program_is_tried_with_its_values(tmp_path, program):
    main, name = program
    utils.save_program(main, str(tmp_path / "__model__"))
    values = {"bare_w": np.full((4, 3), 2, "float32"), "bare_b": np.ones(3, "float32")}
    for key, value in values.items():
        with open(tmp_path / key, "wb") as file:
            binary_tensor.write(file, value)
    (tmp_path / "x.txt").write_text("1 2 3 4\n0 0 0 1\n9 9 9 9\n")
    (tmp_path / "i.txt").write_text("0\n5\n9\n")
    files = [str(tmp_path / "x.txt"), str(tmp_path / "i.txt")]
    feed = types.SimpleNamespace(
        feeded_vars_names=["x", "i"], feeded_vars_dims=[[4], [1]], feeded_vars_types=[np.float32, "int64"],
        feeded_vars_filelist=files,
    )  # fmt: skip
    fetch = types.SimpleNamespace(fetch_vars_names=[name])
    before = run(main, name)
    given = (str(tmp_path), "__model__", False, feed, fetch)
    (found,) = utils.check_saved_vars_try_dump(*given, batch_size=2)
    assert found.tolist() == [[21.0, 22.0, 23.0], [8.0, 9.0, 10.0]]
    np.testing.assert_array_equal(run(main, name), before)  # values of the file stay in a scope of their own
    feed.feeded_vars_filelist = None
    assert utils.check_saved_vars_try_dump(*given, batch_size=3)[0].shape == (3, 3)
    feed.feeded_vars_dims = [[5], [1]]
    with pytest.raises(RuntimeError, match=r"expected sizes \[4\] of 'x', got \[5\]"):
        utils.check_saved_vars_try_dump(*given)
