"""Pictures of graphs: one page with all operations, that needs nothing else."""

import re
from html.parser import HTMLParser

import pytest

import bireme
from bireme import jit, nn
from bireme.jit.drawing import draw
from bireme.static import InputSpec


class Net(nn.Layer):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Sequential(nn.Linear(4, 8), nn.ReLU()), nn.Linear(8, 4)

    def forward(self, x):
        y = self.second(self.first(x)) + x
        if y.sum() > 0:
            y = y * 2
        return y


class Balanced(HTMLParser):
    """Fails where an element is closed that is not open."""

    def __init__(self):
        super().__init__()
        self.open = []

    def handle_starttag(self, tag, attrs):
        if tag not in ("meta", "input"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_page(tmp_path):
    draw(Net(), str(tmp_path / "net.html"), [InputSpec([None, 4], "float32", "x<1>")])
    page = (tmp_path / "net.html").read_text()
    parser = Balanced()
    parser.feed(page)
    assert parser.open == []
    assert "x&lt;1&gt;" in page and "x<1>" not in page
    assert re.findall(r'<text x="[^>]*>([^<]*)', page)[1:3] == ["first", "second"]
    assert "float32[?x8]" in page and "linear_0.w_0" not in page.split("<script>")[1]
    assert len(re.findall('class="op"', page)) >= 6 and "<summary>true</summary>" in page
    assert "http" not in page


def test_saved_model(tmp_path):
    jit.save(Net(), str(tmp_path / "net"), [InputSpec([None, 4])])
    draw(str(tmp_path / "net"), str(tmp_path / "net.html"))
    assert "<h2>forward</h2>" in (tmp_path / "net.html").read_text()


def test_wrong_depth(tmp_path):
    with pytest.raises(ValueError, match=r"draw\(depth\): expected a positive integer, got 0"):
        draw(Net(), str(tmp_path / "net.html"), [InputSpec([None, 4])], depth=0)
    assert bireme.jit.drawing is not None
