"""Audio: scales, windows and features beside SciPy's and Paddle's numbers, files written and read, datasets in folders."""

import io
import json
import struct
import sys
import types
import wave
from pathlib import Path

import numpy as np
import pytest
import scipy.fft
import scipy.signal

import bireme
from bireme.audio import backends, datasets, features, functional
from bireme.io import DataLoader, archives

PADDLE = json.loads((Path(__file__).parent / "expected" / "audio.json").read_text())
WINDOWS = [
    "bartlett", "blackman", "bohman", "cosine", "hamming", "hann", "nuttall", "taylor", "triang", "tukey",
    ("exponential", None, 3.0), ("gaussian", 7.0), ("general_cosine", [0.5, 0.3, 0.2]), ("general_gaussian", 1.5, 7.0),
    ("general_hamming", 0.6), ("kaiser", 4.0), ("taylor", 6, 40, False), ("tukey", 0.1),
]  # fmt: skip


@pytest.mark.parametrize("window", WINDOWS, ids=str)
def test_windows(window):
    for n in (1, 2, 7, 8, 100):
        for periodic in (True, False):
            got = functional.get_window(window, n, periodic)
            assert got.dtype == bireme.float64
            np.testing.assert_allclose(got.numpy(), scipy.signal.get_window(window, n, periodic), atol=1e-14)
    assert functional.get_window(window, 0).shape == [0]


@pytest.mark.parametrize(
    ("window", "message"),
    [
        ("kaiser", "expected a tuple ('kaiser', beta), got 'kaiser'"),
        ("exponential", "expected a tuple ('exponential', center, tau), got 'exponential'"),
        (("hann", 3), "expected 'hann' alone, got ('hann', 3)"),
        (("gaussian", "a"), "expected numbers as parameters of 'gaussian', got ('gaussian', 'a'): "),
        ("hanning", "expected one of 'bartlett', "),
        (3, "expected one of 'bartlett', "),
    ],
)
def test_windows_that_are_not_known(window, message):
    with pytest.raises(ValueError) as e:
        functional.get_window(window, 8)
    assert str(e.value).startswith(f"get_window(window): {message}")


def test_scales():
    hz, mel = bireme.to_tensor(PADDLE["hz"]), bireme.to_tensor(PADDLE["mel"])
    for htk in (True, False):
        np.testing.assert_allclose(functional.hz_to_mel(hz, htk).numpy(), PADDLE["hz_to_mel"][htk], rtol=1e-6)
        np.testing.assert_allclose(functional.mel_to_hz(mel, htk).numpy(), PADDLE["mel_to_hz"][htk], rtol=1e-6)
        assert [functional.hz_to_mel(f, htk) for f in PADDLE["hz"]] == pytest.approx(PADDLE["hz_to_mel"][htk])
        assert [functional.mel_to_hz(f, htk) for f in PADDLE["mel"]] == pytest.approx(PADDLE["mel_to_hz"][htk])
    hz.stop_gradient = False
    functional.hz_to_mel(hz).sum().backward()
    assert np.isfinite(hz.grad.numpy()).all()


def test_matrices():
    got = functional.mel_frequencies(5, 20.0, 4000.0, dtype="float64")
    np.testing.assert_allclose(got.numpy(), PADDLE["mel_frequencies"], rtol=1e-9)
    assert functional.fft_frequencies(16000, 32).tolist() == np.fft.rfftfreq(32, 1 / 16000).tolist()
    for norm, expected in zip(("slaney", 2.0, None), PADDLE["fbank"], strict=True):
        got = functional.compute_fbank_matrix(8000, 16, 3, 20.0, None, True, norm, "float64")
        np.testing.assert_allclose(got.numpy(), expected, atol=1e-9)
    for norm in ("ortho", None):
        got = functional.create_dct(4, 8, norm, "float64").numpy()
        np.testing.assert_allclose(got, scipy.fft.dct(np.eye(8), norm=norm)[:, :4], atol=1e-14)


def test_decibels():
    x = bireme.to_tensor([[1.0, 100.0], [1e-12, 0.0]])
    found = functional.power_to_db(x, top_db=None), functional.power_to_db(x, 10.0, 0.1, 15.0)
    np.testing.assert_allclose(found[0].numpy(), [[0.0, 20.0], [-100.0, -100.0]], rtol=1e-6)
    np.testing.assert_allclose(found[1].numpy(), [[-5.0, 10.0], [-5.0, -5.0]], rtol=1e-6)
    for arguments, message in [
        ({"amin": 0}, "amin): expected a positive number, got 0"),
        ({"ref_value": -1.0}, "ref_value): expected a positive number, got -1.0"),
        ({"top_db": -2}, "top_db): expected a non-negative number or None, got -2"),
    ]:
        with pytest.raises(ValueError) as e:
            functional.power_to_db(x, **arguments)
        assert str(e.value).startswith(f"power_to_db({message}")


def test_spectrogram_is_scipys():
    x = np.random.default_rng(0).standard_normal((2, 400)).astype(np.float32)
    window = scipy.signal.get_window("hamming", 64)
    padded = np.pad(x, ((0, 0), (32, 32)), mode="reflect")
    frames = np.lib.stride_tricks.sliding_window_view(padded, 64, axis=1)[:, ::16]
    expected = np.abs(np.fft.rfft(frames * window)).swapaxes(1, 2)
    for power in (1.0, 2.0, 0.5):
        got = features.Spectrogram(64, 16, window="hamming", power=power)(bireme.to_tensor(x))
        np.testing.assert_allclose(got.numpy(), expected**power, rtol=2e-4, atol=2e-4)
    alone = features.Spectrogram(64, 16, window="hamming")(bireme.to_tensor(x[0]))
    np.testing.assert_allclose(alone.numpy(), expected[0], rtol=2e-4, atol=2e-4)


def test_features_are_paddles():
    x = bireme.to_tensor([PADDLE["waveform"]], stop_gradient=False)
    made = {
        "spectrogram": features.MelSpectrogram(8000, 32, 16, n_mels=4),
        "log": features.LogMelSpectrogram(8000, 32, n_mels=4, top_db=20.0),
        "mfcc": features.MFCC(8000, 3, 32, n_mels=4, htk=True, norm=1, f_min=0.0),
    }
    for name, layer in made.items():
        np.testing.assert_allclose(layer(x).numpy(), PADDLE[name], rtol=1e-4, atol=1e-4)
    assert list(made["mfcc"].state_dict()) == [
        "dct_matrix",
        "_log_melspectrogram._melspectrogram.fbank_matrix",
        "_log_melspectrogram._melspectrogram._spectrogram.fft_window",
    ]
    made["mfcc"](x).sum().backward()
    assert np.isfinite(x.grad.numpy()).all() and x.grad.numpy().any()
    with pytest.raises(ValueError, match=r"MFCC\(n_mfcc\): expected at most n_mels, 4, got 5"):
        features.MFCC(n_mfcc=5, n_mels=4)


def pcm(width, samples, channels=1, rate=8000):
    file = io.BytesIO()
    with wave.open(file, "wb") as out:
        out.setnchannels(channels)
        out.setsampwidth(width)
        out.setframerate(rate)
        out.writeframes(samples)
    return file.getvalue()


@pytest.mark.parametrize(
    ("width", "samples", "values"),
    [
        (1, bytes([128, 0, 255]), [0, -128, 127]),
        (2, struct.pack("<3h", 0, -32768, 32767), [0, -32768, 32767]),
        (3, b"\0\0\0\0\0\x80\xff\xff\x7f", [0, -(2**23), 2**23 - 1]),
        (4, struct.pack("<3i", 0, -(2**31), 2**31 - 1), [0, -(2**31), 2**31 - 1]),
    ],
)
def test_samples_of_every_width(tmp_path, width, samples, values):
    path = tmp_path / "a.wav"
    path.write_bytes(pcm(width, samples))
    waveform, rate = bireme.audio.load(path)
    assert rate == 8000 and waveform.shape == [1, 3] and waveform.dtype == bireme.float32
    np.testing.assert_allclose(waveform.numpy()[0], np.array(values) / 2 ** (8 * width - 1), rtol=1e-6)
    raw, _ = bireme.audio.load(str(path), normalize=False, channels_first=False)
    np.testing.assert_allclose(raw.numpy()[:, 0], np.array(values, np.float32))
    assert bireme.audio.info(path).bits_per_sample == 8 * width


def test_waveforms_go_round(tmp_path):
    x = bireme.to_tensor([[0.0, 0.25, 1.5, -2.0], [0.5, -0.5, 0.125, 0.0]])
    bireme.audio.save(tmp_path / "a.wav", x, 16000)
    got, rate = bireme.audio.load(tmp_path / "a.wav")
    assert rate == 16000
    assert got.tolist() == [[0.0, 0.25, 32767 / 32768, -1.0], [0.5, -0.5, 0.125, 0.0]]  # clipped, not wrapped around
    assert bireme.audio.load(tmp_path / "a.wav", 1, 2)[0].tolist() == [[0.25, 32767 / 32768], [-0.5, 0.125]]
    assert bireme.audio.load(tmp_path / "a.wav", frame_offset=3)[0].tolist() == [[-1.0], [0.0]]
    assert bireme.audio.load(tmp_path / "a.wav", frame_offset=9)[0].shape == [2, 0]
    bireme.audio.save(str(tmp_path / "b.wav"), bireme.to_tensor([[1], [-3]], "int16"), 8000, channels_first=False)
    assert bireme.audio.load(tmp_path / "b.wav", normalize=False)[0].tolist() == [[1.0, -3.0]]
    for arguments, message in [
        ({"bits_per_sample": 24}, "save(bits_per_sample): expected 16 or None, got 24"),
        ({"encoding": "MP3"}, "save(encoding): expected 'PCM_16' or None, got 'MP3'"),
        ({"src": x[0]}, "save(src): expected the shape [channels, time], got shape [4]"),
        ({"src": x.astype("int32")}, "save(src): expected floating-point numbers or int16, got int32"),
        ({"sample_rate": 0}, "save(sample_rate): expected a positive integer, got 0"),
    ]:
        with pytest.raises(ValueError) as e:
            bireme.audio.save(**{"filepath": tmp_path / "c.wav", "src": x, "sample_rate": 8000, **arguments})
        assert str(e.value).startswith(message)


def test_damaged_and_hostile_files(tmp_path):
    good = pcm(2, bytes(40))
    huge = bytearray(good)
    huge[40:44] = struct.pack("<I", 0xFFFFFFF0)  # what it declares is 4 GB
    for data in (b"", b"text", good[:20], good[:-10], bytes(huge), b"fLaC" + bytes(50)):
        path = tmp_path / "a.wav"
        path.write_bytes(data)
        for function in (bireme.audio.load, bireme.audio.info):
            name = function.__name__
            with pytest.raises(bireme.errors.FileFormatError, match=rf"^{name}\(filepath\): expected a .*WAV file"):
                function(path)
    with pytest.raises(FileNotFoundError, match=r"load\(filepath\): expected a file, got .*none.wav, which does not"):
        bireme.audio.load(tmp_path / "none.wav")


@pytest.fixture
def soundfile(monkeypatch):
    """The package's calls, with a format of its own."""
    held = {}
    module = types.ModuleType("soundfile")
    module.__spec__ = types.SimpleNamespace(name="soundfile")

    def read(file, frames, start, dtype, always_2d):
        data, rate = held[file]
        end = None if frames == -1 else start + frames
        return (data if dtype == "float32" else (data * 2**15).astype("int16"))[start:end], rate

    def write(file, data, rate, subtype, format):
        if subtype not in ("PCM_16", "PCM_24"):
            raise ValueError(f"no {subtype}")
        held[file] = (data, rate)

    def info(file):
        if file not in held:
            raise RuntimeError("no such format")
        data, rate = held[file]
        return types.SimpleNamespace(samplerate=rate, frames=len(data), channels=data.shape[1], subtype="PCM_24")

    module.read, module.write, module.info = read, write, info
    monkeypatch.setitem(sys.modules, "soundfile", module)
    backends.set_backend("soundfile")
    yield held
    backends.set_backend("wave_backend")


def test_other_formats_by_soundfile(soundfile, tmp_path):
    assert backends.get_current_backend() == "soundfile"
    path = tmp_path / "a.flac"
    path.write_bytes(b"")
    bireme.audio.save(path, bireme.to_tensor([[0.5, -0.5, 3.0]]), 44100, bits_per_sample=24)
    assert bireme.audio.load(path, frame_offset=1)[0].tolist() == [[-0.5, 1.0]]
    assert bireme.audio.load(path, 0, 2, normalize=False)[0].tolist() == [[16384.0, -16384.0]]
    found = bireme.audio.info(path)
    assert (found.sample_rate, found.num_samples, found.bits_per_sample, found.encoding) == (44100, 3, 24, "PCM_24")
    with pytest.raises(ValueError, match=r"save\(filepath\): expected a format that soundfile writes as OPUS"):
        bireme.audio.save(path, bireme.zeros([1, 2]), 44100, encoding="OPUS")
    (tmp_path / "b.mp3").write_bytes(b"")
    with pytest.raises(ValueError, match=r"info\(filepath\): expected an audio file that soundfile reads"):
        bireme.audio.info(tmp_path / "b.mp3")


def test_a_backend_that_is_not_there(monkeypatch):
    monkeypatch.setitem(sys.modules, "soundfile", None)
    monkeypatch.setattr(backends.backend.importlib.util, "find_spec", lambda name: None)
    assert backends.list_available_backends() == ["wave_backend"]
    with pytest.raises(ValueError) as e:
        backends.set_backend("soundfile")
    assert "expected 'wave_backend', got 'soundfile'\n  hint: pip install 'bireme[audio]'" in str(e.value)
    with pytest.raises(ImportError, match="pip install 'bireme"):
        backends.backend.soundfile_backend.info("info(filepath)", "a.wav")


@pytest.fixture
def esc50(tmp_path):
    folder = tmp_path / "ESC-50-master"
    (folder / "audio").mkdir(parents=True)
    (folder / "meta").mkdir()
    rows = ["filename,fold,target,category,esc10,src_file,take"]
    for fold in range(1, 6):
        (folder / "audio" / f"{fold}.wav").write_bytes(pcm(2, struct.pack("<h", fold) * 200))
        rows.append(f"{fold}.wav,{fold},{fold * 10},c,False,1,A")
    (folder / "meta" / "esc50.csv").write_text("\n".join(rows))
    return tmp_path


def test_esc50(esc50, monkeypatch):
    train = datasets.ESC50(archive=esc50, split=2)
    assert len(train) == 4 and [label for _, label in train] == [10, 30, 40, 50]
    dev = datasets.ESC50("dev", 2, "mfcc", esc50, n_mfcc=3, n_mels=4, n_fft=32)
    feature, label = dev[0]
    assert (feature.shape, label) == ([3, 26], 20)
    assert [x.shape for x, _ in DataLoader(train, batch_size=2)] == [[2, 200], [2, 200]]
    monkeypatch.setattr(archives, "DATA_HOME", str(esc50))
    assert len(datasets.ESC50()) == 4 and len(datasets.ESC50.label_list) == 50
    for arguments, message in [
        ({"split": 6}, "ESC50(split): expected a fold in [1, 5], got 6"),
        ({"mode": "test"}, "ESC50(mode): expected 'train' or 'dev', got 'test'"),
        ({"feat_type": "pitch"}, "ESC50(feat_type): expected 'raw' or "),
        ({"n_mels": 3}, "ESC50(n_mels): expected arguments of features only where feat_type names some"),
    ]:
        with pytest.raises(ValueError) as e:
            datasets.ESC50(**arguments)
        assert str(e.value).startswith(message)


@pytest.mark.parametrize("row", ["../../x.wav,1,0,c,False,1,A", "a.wav,one,0,c,False,1,A", "a.wav"])
def test_esc50_with_a_wrong_table(esc50, row):
    (esc50 / ESC50_META).write_text(f"head\n{row}\n")
    with pytest.raises(bireme.errors.FileFormatError, match=r"ESC50\(archive\): expected a table of recordings, got"):
        datasets.ESC50(archive=esc50)


ESC50_META = datasets.ESC50.meta


def test_tess(tmp_path):
    for speaker in ("OAF", "YAF"):
        folder = tmp_path / datasets.TESS.audio_path / speaker
        folder.mkdir(parents=True)
        for emotion in ("angry", "ps", "sad"):
            (folder / f"{speaker}_back_{emotion}.wav").write_bytes(pcm(2, bytes(100)))
    train = datasets.TESS(n_folds=3, split=1, archive=tmp_path)
    assert [label for _, label in train] == [5, 6, 5, 6]
    assert datasets.TESS("dev", 3, 1, "spectrogram", tmp_path, n_fft=16, hop_length=8)[0][0].shape == [9, 7]
    (folder / "noise.wav").write_bytes(b"")
    with pytest.raises(ValueError, match=r"TESS\(archive\): expected names of files such as OAF_back_angry.wav"):
        datasets.TESS(archive=tmp_path)


@pytest.mark.parametrize("cls", [datasets.ESC50, datasets.TESS])
def test_a_missing_folder_is_one_sentence(tmp_path, cls):
    with pytest.raises(ValueError) as e:
        cls(archive=tmp_path)
    told = str(e.value)
    assert told.startswith(f"{cls.__name__}(archive): expected a folder with ") and "which does not exist" in told
    assert f"hint: download {cls.archive['url']} (md5 {cls.archive['md5']}), unpack it" in told
