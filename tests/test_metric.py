"""bireme.metric: figures against counting by hand and scikit-learn, on arrays and on tensors."""

import numpy as np
import pytest
from sklearn import metrics as sk

import bireme
from bireme import metric

RNG = np.random.RandomState(0)
SCORES = RNG.rand(40, 5).astype(np.float32)
LABELS = RNG.randint(0, 5, (40, 1))
PROBABILITY = RNG.rand(200).astype(np.float32)
TRUTH = (RNG.rand(200) < PROBABILITY).astype(np.int64)


def among_best(k):
    best = np.argsort(-SCORES, axis=1)[:, :k]
    return float((best == LABELS).any(axis=1).mean())


@pytest.mark.parametrize("as_tensors", [True, False])
@pytest.mark.parametrize(
    "label", [LABELS, LABELS.ravel(), np.eye(5, dtype=np.float32)[LABELS.ravel()]], ids=["column", "vector", "one-hot"]
)
def test_accuracy_over_batches(label, as_tensors):
    m = metric.Accuracy(topk=(1, 3))
    for part in (slice(0, 30), slice(30, 40)):
        correct = m.compute(bireme.to_tensor(SCORES[part]), bireme.to_tensor(label[part]))
        assert correct.shape == [len(SCORES[part]), 3]
        step = m.update(correct if as_tensors else correct.numpy())
    assert len(step) == 2
    assert m.accumulate() == pytest.approx([among_best(1), among_best(3)])
    assert m.name() == ["acc_top1", "acc_top3"]
    m.reset()
    assert m.accumulate() == [0.0, 0.0]


def test_accuracy_of_one_batch():
    m = metric.Accuracy(name="hits")
    x, y = bireme.to_tensor(SCORES), bireme.to_tensor(LABELS)
    assert float(m.update(m.compute(x, y))) == pytest.approx(among_best(1))
    assert m.accumulate() == pytest.approx(among_best(1))
    assert m.name() == ["hits"]
    many = m.compute(bireme.to_tensor(SCORES.reshape(8, 5, 5)), bireme.to_tensor(LABELS.reshape(8, 5, 1)))
    assert many.shape == [8, 5, 1]


def test_updates_with_tensors_wait():
    """Nothing is computed before somebody asks for the figure."""
    m = metric.Accuracy()
    right = bireme.to_tensor([[1.0], [0.0]]) * 1
    step = m.update(right)
    assert right._value.array is None
    assert step._value.array is None
    assert m.accumulate() == 0.5
    p = metric.Precision()
    said = bireme.to_tensor([0.9, 0.2]) * 1
    p.update(said, bireme.to_tensor([1, 0]))
    assert said._value.array is None
    assert p.accumulate() == 1.0


@pytest.mark.parametrize("convert", [np.asarray, bireme.to_tensor], ids=["array", "tensor"])
@pytest.mark.parametrize("column", [True, False])
def test_precision_and_recall(convert, column):
    shape = (-1, 1) if column else (-1,)
    precision, recall = metric.Precision(), metric.Recall()
    for part in (slice(0, 150), slice(150, 200)):
        for m in (precision, recall):
            m.update(convert(PROBABILITY[part].reshape(shape)), convert(TRUTH[part].reshape(shape)))
    said = PROBABILITY >= 0.5
    assert precision.accumulate() == pytest.approx(sk.precision_score(TRUTH, said))
    assert recall.accumulate() == pytest.approx(sk.recall_score(TRUTH, said))
    assert (precision.name(), recall.name()) == ("precision", "recall")
    precision.reset()
    assert (precision.tp, precision.fp, precision.accumulate()) == (0, 0, 0.0)


def test_one_half_rounds_as_in_paddle():
    """Up for precision, to the even number, 0, for recall."""
    precision, recall = metric.Precision(), metric.Recall()
    for m in (precision, recall):
        m.update(np.array([0.5]), np.array([1]))
    assert (precision.accumulate(), recall.accumulate()) == (1.0, 0.0)


@pytest.mark.parametrize("convert", [np.asarray, bireme.to_tensor], ids=["array", "tensor"])
def test_area_under_the_curve(convert):
    m = metric.Auc()
    both = np.stack([1 - PROBABILITY, PROBABILITY], axis=1)
    for part in (slice(0, 120), slice(120, 200)):
        m.update(convert(both[part]), convert(TRUTH[part].reshape(-1, 1)))
    bins = np.floor(PROBABILITY * np.float32(4095))
    assert m.accumulate() == pytest.approx(sk.roc_auc_score(TRUTH, bins), abs=1e-12)
    m.reset()
    assert m.accumulate() == 0.0
    assert m.name() == "auc"
    for _ in range(metric.Auc.WAIT + 1):
        m.update(convert(both[:4]), convert(TRUTH[:4]))
    assert m._stat_pos.sum() + m._stat_neg.sum() >= 4 * metric.Auc.WAIT


def test_accuracy_function():
    x, y = bireme.to_tensor(SCORES), bireme.to_tensor(LABELS)
    correct, total = bireme.zeros([1], "int32"), bireme.zeros([1], "int32")
    found = metric.accuracy(x, y, k=2, correct=correct, total=total)
    assert (found.shape, found.dtype) == ([], bireme.float32)
    assert found.item() == pytest.approx(among_best(2))
    assert int(correct) == round(among_best(2) * 40)
    assert int(total) == 40


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        (lambda: metric.accuracy(bireme.zeros([2, 3]), bireme.zeros([2], "int64")), ValueError, r"shape \[2, 1\]"),
        (lambda: metric.accuracy(bireme.zeros([2, 3]), bireme.zeros([2, 1], "int64"), k=4), ValueError, "1 to 3"),
        (lambda: metric.Precision().update([0.5], [1]), ValueError, "Tensor or an array"),
        (lambda: metric.Recall().update(np.ones((2, 2)), np.ones((2, 2))), ValueError, r"\[N, 1\]"),
        (lambda: metric.Recall().update(np.ones(2), np.ones(3)), IndexError, "each of 3 labels"),
        (lambda: metric.Auc().update(np.ones((2, 1)), np.ones(2)), IndexError, "both classes"),
        (lambda: metric.Auc().update(np.full((2, 2), 1.5), np.ones(2)), AssertionError, r"in \[0, 1\]"),
        (lambda: metric.Accuracy(other=1), TypeError, "other|argument"),
        (lambda: metric.Metric(), TypeError, "abstract"),
    ],
)
def test_bad_input(call, kind, message):
    with pytest.raises(kind, match=message):
        call()
