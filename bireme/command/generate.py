"""`bireme generate`: the text that a language model goes on with, token by token on the terminal."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from bireme.core.base import errors
from bireme.device import set_device
from bireme.llm import Engine, Grammar, LanguageModel, SamplingOptions, load
from bireme.llm.grammars import LONGEST

_HIDDEN = dict.fromkeys((*range(9), *range(11, 32), *range(127, 160)), "\ufffd")  # what could steer a terminal
SAMPLING = ("max_tokens", "temperature", "top_k", "top_p", "min_p", "repetition_penalty", "seed")
EXAMPLES = """  bireme generate models/llama --prompt "Once upon a time" --max-tokens 100
  bireme generate models/llama --chat --prompt "Name three rivers." --temperature 0.7 --top-p 0.9 --seed 1
  bireme generate models/llama --chat --prompt "Invent a person." --json-schema person.json > person
  cat letter.txt | bireme generate models/llama --chat --system "Summarize what follows in one sentence."
"""


def add(parser: argparse.ArgumentParser) -> None:
    """Its arguments."""
    parser.add_argument(
        "model", metavar="MODEL", help="folder of a language model: config.json, .safetensors, tokenizer.json"
    )
    parser.add_argument("--prompt", metavar="TEXT", help="what the text begins with (default: what stands on stdin)")
    parser.add_argument(
        "--chat", action="store_true", help="the prompt is a message, put through the model's chat template"
    )
    parser.add_argument("--system", metavar="TEXT", help="message of the system before it; means --chat")
    chosen = parser.add_argument_group("how tokens are chosen")
    chosen.add_argument(
        "--max-tokens", type=int, default=256, metavar="N", help="tokens at most (default: %(default)s)"
    )
    chosen.add_argument(
        "--temperature", type=float, default=0.0, metavar="X", help="0 takes the most likely token (default: 0)"
    )
    chosen.add_argument("--top-p", type=float, default=1.0, metavar="X", help="draw among the likeliest that reach it")
    chosen.add_argument("--top-k", type=int, default=0, metavar="N", help="draw among so many of the likeliest; 0: all")
    chosen.add_argument(
        "--min-p", type=float, default=0.0, metavar="X", help="drop tokens less likely than this part of the best"
    )
    chosen.add_argument("--repetition-penalty", type=float, default=1.0, metavar="X", help="above 1, repeat less")
    chosen.add_argument(
        "--seed", type=int, default=0, metavar="N", help="the same seed gives the same text (default: 0)"
    )
    chosen.add_argument(
        "--stop", action="append", default=[], metavar="TEXT", help="end before this; may be given again"
    )
    form = parser.add_argument_group("what the text has to be").add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="a JSON object")
    form.add_argument("--json-schema", metavar="SCHEMA", help="JSON that follows a schema, in a file or as it is")
    form.add_argument("--regex", metavar="PATTERN", help="what matches a regular expression")
    runs = parser.add_argument_group("the model")
    runs.add_argument(
        "--dtype", choices=["float32", "bfloat16", "float16"], help="of the weights (default: float32 on a CPU)"
    )
    runs.add_argument("--quantize", choices=["int8", "int4"], help="keep matrices as integers")
    runs.add_argument("--device", help="where it runs, as gpu:0 (default: what bireme.get_device() says)")
    parser.add_argument("--quiet", action="store_true", help="do not tell the number of tokens and the time at the end")


def run(arguments: argparse.Namespace) -> int:
    """Load the model, write the text as it comes, and tell how fast it came."""
    grammar = _grammar(arguments)  # what is wrong with it is told before the model is loaded
    given = {name: getattr(arguments, name) for name in SAMPLING}
    options = SamplingOptions(**given, stop=arguments.stop, grammar=grammar)
    prompt = sys.stdin.read() if arguments.prompt is None else arguments.prompt
    if arguments.device is not None:
        set_device(arguments.device)
    model = load(arguments.model, dtype=arguments.dtype, quantize=arguments.quantize)
    tokens = _tokens(model, prompt, arguments)
    length = min(len(tokens) + options.max_tokens, model.config.positions)
    if len(tokens) >= length:
        raise errors.failure(
            f"the prompt has {len(tokens)} tokens, and the model knows {model.config.positions}", kind=ValueError
        )
    with Engine(model, max_batch=1, max_length=length) as engine:
        start = time.perf_counter()
        request = engine.submit(tokens, options)
        first, count, reason = 0.0, 0, None
        for event in request.tokens():
            first = first or time.perf_counter()
            count += event.token is not None
            reason = event.finish_reason
            sys.stdout.write(event.text.translate(_HIDDEN) if sys.stdout.isatty() else event.text)
            sys.stdout.flush()
        end = time.perf_counter()
    sys.stdout.write("\n")
    if not arguments.quiet:
        rate = f", {(count - 1) / (end - first):.1f} tokens/s" if count > 1 else ""
        ended = "" if reason == "stop" else f"; it ends at --max-tokens {options.max_tokens}"
        if reason == "length" and length < len(tokens) + options.max_tokens:
            ended = f"; it ends where the model does, at {length} tokens"
        sys.stderr.write(
            f"{len(tokens)} tokens of the prompt and the first one in {first - start:.2f} s; {count} tokens{rate}{ended}\n"
        )
    return 0


def _grammar(arguments: argparse.Namespace) -> Grammar | None:
    if arguments.json:
        return Grammar("json")
    if arguments.regex is not None:
        return Grammar("regex", arguments.regex)
    if arguments.json_schema is None:
        return None
    text = arguments.json_schema
    if not text.lstrip().startswith("{"):
        with Path(text).open(encoding="utf-8") as file:
            text = file.read(LONGEST + 1)
    return Grammar("json_schema", text)


def _tokens(model: LanguageModel, prompt: str, arguments: argparse.Namespace) -> list[int]:
    if model.tokenizer is None:
        raise errors.failure("the folder has no tokenizer.json, so text has no tokens", kind=ValueError)
    if not (arguments.chat or arguments.system is not None):
        found = model.tokenizer.encode(prompt)
    elif model.chat_template is None:
        raise errors.failure("the folder has no chat template: leave --chat and --system out", kind=ValueError)
    else:
        messages = [{"role": "user", "content": prompt}]
        if arguments.system is not None:
            messages.insert(0, {"role": "system", "content": arguments.system})
        found = model.tokenizer.encode(model.chat_template.render(messages), special=False)
    if not found:
        raise errors.failure("the prompt is empty", kind=ValueError)
    return found
