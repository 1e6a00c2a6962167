"""Text: decoding is one program, and datasets are read from small files of their original formats."""

import gzip
import io
import tarfile
import zipfile

import numpy as np
import pytest

import bireme
from bireme import text
from bireme.io import DataLoader, archives


def tar(path, files):
    with tarfile.open(path, "w:gz") as archive:
        for name, data in files.items():
            member = tarfile.TarInfo(name)
            data = data if isinstance(data, bytes) else data.encode()
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return path


def test_decoding_has_one_program_for_all_steps():
    rng = np.random.default_rng(0)
    transitions = bireme.to_tensor(rng.standard_normal((5, 5)).astype("float32"))
    decoder = text.ViterbiDecoder(transitions)
    bireme.debug.reset_stats()
    for _ in range(4):
        potentials = bireme.to_tensor(rng.standard_normal((3, 40, 5)).astype("float32"))
        scores, path = decoder(potentials, bireme.to_tensor([40, 1, 7]))
        assert path.shape == [3, 40] and path.dtype == bireme.int64 and not path.numpy()[1, 1:].any()
        tags = path.numpy()[0]
        along = potentials.numpy()[0, range(40), tags].sum() + transitions.numpy()[tags[:-1], tags[1:]].sum()
        ends = transitions.numpy()[-1, tags[0]] + transitions.numpy()[-2, tags[-1]]
        assert scores.numpy()[0] == pytest.approx(along + ends, rel=1e-5)
    assert bireme.debug.stats()["nodes"] <= 4 and scores.stop_gradient
    assert text.viterbi_decode(potentials, transitions, bireme.to_tensor([2, 2, 0]))[1].shape == [3, 2]


def test_decoder_trains_its_transitions():
    transitions = bireme.create_parameter([3, 3], "float32")
    decoder = text.ViterbiDecoder(transitions, include_bos_eos_tag=False)
    assert [name for name, _ in decoder.named_parameters()] == ["transitions"]


def test_housing(tmp_path):
    rows = np.arange(70, dtype=float).reshape(5, 14) ** 1.5
    rows[:, 3] = 7  # the same everywhere
    (tmp_path / "housing.data").write_text("\n".join(" ".join(f"{v:.3f}" for v in row) for row in rows))
    train, test = text.UCIHousing(tmp_path / "housing.data"), text.UCIHousing(tmp_path / "housing.data", "test")
    assert (len(train), len(test)) == (4, 1)
    x, y = test[0]
    assert x.shape == (13,) and x.dtype == np.float32 and y.tolist() == [np.float32(round(rows[4, 13], 3))]
    expected = (rows[4, 0] - rows[:, 0].mean()) / (rows[:, 0].max() - rows[:, 0].min())
    assert x[0] == pytest.approx(expected, rel=1e-5) and x[3] == 0
    for data, message in [
        ("1 2 3", "rows of 14 numbers"),
        ("a " * 14, "a table of numbers"),
        ("", "rows of 14 numbers"),
    ]:
        (tmp_path / "bad").write_text(data)
        with pytest.raises(bireme.errors.FileFormatError, match=rf"UCIHousing\(data_file\): expected {message}, got"):
            text.UCIHousing(tmp_path / "bad")


@pytest.fixture
def imdb(tmp_path):
    return tar(
        tmp_path / "imdb.tar.gz",
        {
            "aclImdb/train/neg/0_1.txt": "Bad, bad film!\n",
            "aclImdb/train/pos/0_9.txt": "Good film. Good",
            "aclImdb/test/pos/1_9.txt": "a good bad",
            "aclImdb/README": "bad " * 50,
        },
    )


def test_imdb(imdb):
    train = text.Imdb(imdb, cutoff=1)
    assert train.word_idx == {b"bad": 0, b"good": 1, b"film": 2, "<unk>": 3}
    assert [(doc.tolist(), label.tolist()) for doc, label in train] == [([1, 2, 1], [0]), ([0, 0, 2], [1])]
    assert [doc.tolist() for doc, _ in text.Imdb(imdb, "test", 1)] == [[3, 1, 0]]
    assert DataLoader(train, batch_size=1) is not None and len(train) == 2


def test_imikolov(tmp_path):
    path = tar(
        tmp_path / "ptb.tgz",
        {
            "./simple-examples/data/ptb.train.txt": "a b a\nb c\n",
            "./simple-examples/data/ptb.valid.txt": "a <unk>\n",
            "./simple-examples/data/ptb.test.txt": "b a d\n",
        },
    )
    grams = text.Imikolov(path, "NGRAM", 2, min_word_freq=0)
    # as Paddle numbers them: by count, then by name
    assert grams.word_idx == {"<e>": 0, "<s>": 1, b"a": 2, b"b": 3, b"<unk>": 4, b"c": 5, "<unk>": 6}
    assert [tuple(int(w) for w in gram) for gram in grams] == [(1, 2), (2, 3), (3, 2), (2, 0), (1, 3), (3, 5), (5, 0)]
    pairs = text.Imikolov(path, "seq", mode="test", min_word_freq=1)
    assert [[part.tolist() for part in pair] for pair in pairs] == [[[1, 3, 2, 4], [3, 2, 4, 0]]]
    assert len(text.Imikolov(path, "SEQ", 2, "test", 1)) == 0
    for arguments, message in [
        ({"data_type": "WORDS"}, "Imikolov(data_type): expected 'NGRAM' or 'SEQ', got 'WORDS'"),
        ({}, "Imikolov(window_size): expected a positive number of words for 'NGRAM', got -1"),
        ({"mode": "dev", "window_size": 2}, "Imikolov(mode): expected 'train' or 'test', got 'dev'"),
    ]:
        with pytest.raises(ValueError) as e:
            text.Imikolov(path, **arguments)
        assert str(e.value).startswith(message)


def movielens(path, ratings="1::10::5::9\n2::10::1::9\n1::20::3::9\n", users="1::M::25::4::0\n2::F::1::7::0\n"):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(
            "ml-1m/movies.dat", "10::Toy Story (1995)::Comedy|Animation\n20::Caf\xe9 (1990)::Drama\n".encode("latin-1")
        )
        archive.writestr("ml-1m/users.dat", users)
        archive.writestr("ml-1m/ratings.dat", ratings)
    return path


def test_movielens(tmp_path):
    path = movielens(tmp_path / "ml.zip")
    before = np.random.get_state()[1].tolist()  # noqa: NPY002 - the global generator must not be drawn from
    train, test = text.Movielens(path, test_ratio=0.6), text.Movielens(path, "test", test_ratio=0.6)
    assert np.random.get_state()[1].tolist() == before  # noqa: NPY002 - the global generator must not be drawn from
    assert train.movie_title_dict == {"caf\xe9": 0, "story": 1, "toy": 2}
    assert train.categories_dict == {"Animation": 0, "Comedy": 1, "Drama": 2}
    # RandomState(0) draws 0.55, 0.72, 0.60
    assert [[part.tolist() for part in row] for row in test] == [[[1], [0], [2], [4], [10], [1, 0], [2, 1], [5.0]]]
    assert [row[-1].tolist() for row in train] == [[-3.0], [1.0]]
    assert repr(train.user_info[2]) == "<UserInfo id(2), gender(F), age(1), job(7)>"
    assert repr(train.movie_info[20]) == "<MovieInfo id(20), title(Caf\xe9 ), categories(['Drama'])>"
    for change in (
        {"ratings": "1::99::5::9"},
        {"ratings": "1::10"},
        {"users": "1::M::26::4::0"},
        {"users": "x::M::25::4::0"},
    ):
        with pytest.raises(bireme.errors.FileFormatError, match=r"Movielens\(data_file\): expected rows of ratings in"):
            text.Movielens(movielens(tmp_path / "bad.zip", **change))
    with pytest.raises(ValueError, match=r"Movielens\(test_ratio\): expected a share in \[0, 1\], got 2"):
        text.Movielens(path, test_ratio=2)


def test_wmt14(tmp_path):
    path = tar(
        tmp_path / "wmt14.tgz",
        {
            "wmt14/src.dict": "<s>\n<e>\n<unk>\nthe\ncat\n",
            "wmt14/trg.dict": "<s>\n<e>\n<unk>\nle\nchat\n",
            "wmt14/train/train": f"the cat\tle chat\nno pair\nthe dog\tle\n{'the ' * 79}\tle\n",
            "wmt14/test/test": "cat\tchat\n",
        },
    )
    train = text.WMT14(path, dict_size=4)
    assert [[part.tolist() for part in row] for row in train] == [
        [[0, 3, 2, 1], [0, 3, 2], [3, 2, 1]],
        [[0, 3, 2, 1], [0, 3], [3, 1]],
    ]
    assert train.get_dict()[1] == {"<s>": 0, "<e>": 1, "<unk>": 2, "le": 3}
    test = text.WMT14(path, "test", 5)
    assert test[0][0].tolist() == [0, 4, 1] and test.get_dict(reverse=True)[0][4] == "cat"
    with pytest.raises(ValueError, match=r"WMT14\(dict_size\): expected a positive number of words, got -1"):
        text.WMT14(path)
    with pytest.raises(
        bireme.errors.FileFormatError, match=r"expected one file that ends in src.dict, got .*0 of them"
    ):
        text.WMT14(tar(tmp_path / "bad.tgz", {"wmt14/train/train": ""}), dict_size=3)


def test_wmt16(tmp_path):
    path = tar(
        tmp_path / "wmt16.tar.gz",
        {"wmt16/train": "a a b\tx y y\nalone\n", "wmt16/val": "b c\ty z\n", "wmt16/test": "a\tx\n"},
    )
    val = text.WMT16(path, "val", 4, 5)
    assert val.get_dict("en") == {"<s>": 0, "<e>": 1, "<unk>": 2, "a": 3}
    assert val.get_dict("de", reverse=True) == {0: "<s>", 1: "<e>", 2: "<unk>", 3: "y", 4: "x"}  # of German words
    assert [part.tolist() for part in val[0]] == [[0, 2, 2, 1], [0, 3, 2], [3, 2, 1]]
    german = text.WMT16(path, "test", 9, 9, lang="de")
    assert [part.tolist() for part in german[0]] == [[0, 4, 1], [0, 3], [3, 1]] and len(german) == 1
    with pytest.raises(ValueError, match=r"WMT16\(lang\): expected 'en' or 'de', got 'fr'"):
        text.WMT16(path, src_dict_size=3, trg_dict_size=3, lang="fr")


def conll(folder, words="The\ncat\nsat\nhere\n\nRun\n\n", roles="- (A0*\n- *)\nsit (V*)\n- (AM*)\n\nrun (V*)\n\n"):
    packed = {"words": words, "props": roles}
    files = {
        f"conll05st-release/test.wsj/{kind}/test.wsj.{kind}.gz": gzip.compress(data.encode())
        for kind, data in packed.items()
    }
    found = [tar(folder / "conll.tar.gz", files)]
    for name, data in {
        "words": "<unk>\nThe\ncat\nsat\nbos\neos\n", "verbs": "run\nsit\n", "labels": "B-V\nI-V\nB-A0\nI-A0\nB-AM\nO\n", "emb": "",
    }.items():  # fmt: skip
        (folder / name).write_text(data)
        found.append(folder / name)
    return found


def test_conll05(tmp_path):
    files = conll(tmp_path)
    found = text.Conll05st(*files)
    assert len(found) == 2 and found.get_embedding() == str(files[4])
    assert found.get_dict()[2] == {"B-V": 0, "I-V": 1, "B-A0": 2, "I-A0": 3, "B-AM": 4, "I-AM": 5, "O": 6}
    assert [part.tolist() for part in found[0]] == [
        [1, 2, 3, 0], [1] * 4, [2] * 4, [3] * 4, [0] * 4, [5] * 4, [1] * 4, [1, 1, 1, 1], [2, 3, 0, 4],
    ]  # fmt: skip
    assert [part.tolist() for part in found[1]] == [[0], [4], [4], [0], [5], [5], [0], [1], [0]]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"roles": "- (A0*\n"}, "a line of roles for each word"),
        ({"words": "a\n", "roles": "- *\n"}, "a column of roles for each predicate"),
        ({"words": "a\n", "roles": "run what\n"}, "roles such as"),
    ],
)
def test_conll05_that_is_damaged(tmp_path, change, message):
    with pytest.raises(bireme.errors.FileFormatError, match=rf"Conll05st\(data_file\): expected {message}"):
        text.Conll05st(*conll(tmp_path, **change))


@pytest.mark.parametrize(
    ("roles", "message"),
    [
        ("fly (V*)\n", "predicates that verb_dict_file has"),
        ("run (A0*)\n", "a role"),
        ("run (V*)\nrun (B*)\n", "a col"),
    ],
)
def test_conll05_with_what_its_dictionaries_lack(tmp_path, roles, message):
    with pytest.raises(bireme.errors.FileFormatError, match=rf"Conll05st\(data_file\): expected {message}"):
        text.Conll05st(*conll(tmp_path, "a\n" * roles.count("\n"), roles))[0]


def test_archives_that_are_bombs(tmp_path, monkeypatch):
    monkeypatch.setattr(archives, "MAX_MEMBER", 1000)
    bomb = gzip.compress(bytes(10_000))
    with pytest.raises(bireme.errors.FileFormatError, match="a file of over 1000 bytes"):
        archives.unpacked("Conll05st(data_file)", "x.gz", bomb)
    with pytest.raises(
        bireme.errors.FileFormatError, match=r"Movielens\(data_file\): .*'ml-1m/movies.dat' of over 1000"
    ):
        with zipfile.ZipFile(tmp_path / "bomb.zip", "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("ml-1m/movies.dat", bytes(10_000))
        text.Movielens(tmp_path / "bomb.zip")
    monkeypatch.setattr(archives, "MAX_MEMBER", 1 << 20)
    monkeypatch.setattr(archives, "MAX_KEPT", 3000)
    path = tar(tmp_path / "bomb.tgz", {f"aclImdb/train/pos/{i}.txt": bytes(1000) for i in range(5)})
    with pytest.raises(bireme.errors.FileFormatError, match="more than 3000 bytes of data"):
        text.Imdb(path)


def test_archives_that_lead_out(tmp_path):
    for name in ("../aclImdb/train/pos/0.txt", "/etc/passwd"):
        with pytest.raises(bireme.errors.FileFormatError, match=r"Imdb\(data_file\): .*which leads out of it"):
            text.Imdb(tar(tmp_path / "out.tgz", {name: "text"}))
    (tmp_path / "no.zip").write_bytes(b"PK\x03\x04 nothing")
    with pytest.raises(bireme.errors.FileFormatError, match=r"Movielens\(data_file\): .*it is damaged"):
        text.Movielens(tmp_path / "no.zip")
    with zipfile.ZipFile(tmp_path / "other.zip", "w") as archive:
        archive.writestr("a", "b")
    with pytest.raises(bireme.errors.FileFormatError, match=r"an archive with 'ml-1m/movies.dat'"):
        text.Movielens(tmp_path / "other.zip")


@pytest.mark.parametrize(
    ("name", "arguments"),
    [("Conll05st", {}), ("Imdb", {}), ("Imikolov", {"window_size": 2}), ("Movielens", {}), ("UCIHousing", {}),
     ("WMT14", {"dict_size": 3}), ("WMT16", {"src_dict_size": 3, "trg_dict_size": 3})],
)  # fmt: skip
def test_a_missing_file_is_one_sentence(tmp_path, monkeypatch, name, arguments):
    monkeypatch.setattr(archives, "DATA_HOME", str(tmp_path))
    with pytest.raises(ValueError) as e:
        getattr(text, name)(**arguments)
    told = str(e.value)
    assert told.startswith(f"{name}(data_file): expected the file ") and f"got {tmp_path}" in told
    assert "hint: download http" in told and "since nothing is downloaded here" in told
