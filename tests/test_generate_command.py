"""`bireme generate`: text on the terminal, and what is wrong in a sentence; every verb helps."""

import json
import re

import pytest

from bireme.command import VERBS, main
from tests import language_models as models

for package in ("llguidance", "tokenizers", "jinja2"):
    pytest.importorskip(package, reason=f"{package} is not installed")

CONFIG = models.LLAMA | {"vocab_size": 257, "eos_token_id": 256, "num_hidden_layers": 1}
SETTINGS = json.dumps({"chat_template": "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}"})


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("talker")
    return models.write(made, CONFIG, tokenizer__json=models.byte_tokenizer(), tokenizer_config__json=SETTINGS)


def run(capsys, *arguments):
    status = main(["generate", *map(str, arguments)])
    return status, *capsys.readouterr()


def test_text_of_a_grammar(folder, capsys, tmp_path):
    """A chat, drawn with a seed, as the schema of a file says; how fast it came is told apart from it."""
    (tmp_path / "schema.json").write_text(json.dumps({"type": "array", "items": {"enum": [1, 2]}, "maxItems": 2}))
    given = [
        folder,
        "--prompt",
        "Hi",
        "--system",
        "Be short",
        "--temperature",
        "1",
        "--json-schema",
        tmp_path / "schema.json",
    ]
    status, out, err = run(capsys, *given, "--max-tokens", 40)
    assert status == 0 and len(json.loads(out)) <= 2 and set(json.loads(out)) <= {1, 2}
    # <system>Be short<user>Hi
    assert re.fullmatch(r"24 tokens of the prompt and the first one in [\d.]+ s; \d+ tokens, [\d.]+ tokens/s\n", err)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--prompt", ""], "the prompt is empty"),
        (["--prompt", "x" * 64], "the prompt has 64 tokens, and the model knows 64"),
        (
            ["--prompt", "x", "--temperature", "-1"],
            "SamplingOptions(temperature): expected a number in [0, 100], got -1.0",
        ),
        (["--prompt", "x", "--json-schema", "{"], "Grammar(text): expected a schema in JSON, got something else"),
        (["--prompt", "x", "--json-schema", "nowhere.json"], "there is no file nowhere.json"),
        (["--prompt", "x", "--regex", "(a"], "Grammar(text): expected a grammar that can be followed"),
    ],
)
def test_what_is_wrong_is_told(arguments, told, folder, capsys):
    status, out, err = run(capsys, folder, *arguments)
    assert status == 1 and out == "" and err.startswith(f"bireme generate: {told}")


@pytest.mark.parametrize(
    ("missing", "arguments", "told"),
    [
        ("tokenizer.json", [], "no tokenizer.json"),
        ("tokenizer_config.json", ["--chat"], "no chat template: leave --chat"),
    ],
)
def test_folders_without_text(missing, arguments, told, folder, tmp_path, capsys):
    for file in folder.iterdir():
        if file.name != missing:
            (tmp_path / file.name).write_bytes(file.read_bytes())
    status, _, err = run(capsys, tmp_path, "--prompt", "x", *arguments)
    assert status == 1 and told in err


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_helps(verb, capsys):
    """With what it does, what each argument means, and examples."""
    with pytest.raises(SystemExit) as done:
        main([verb, "--help"])
    shown = capsys.readouterr().out
    assert done.value.code == 0 and VERBS[verb].split(":")[0][1:] in " ".join(shown.split())
    assert f"\nexamples:\n  bireme {verb} " in shown
    options = re.findall(r"^  (-[^\n]*(?:\n {10,}[^\n]*)*)", shown, re.MULTILINE)
    assert len(options) >= 3 and all(re.search(r"\s{2,}\S", option) for option in options)
