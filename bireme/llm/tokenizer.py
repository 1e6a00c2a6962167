"""Text to tokens and back, by the tokenizers package; text as it streams, in whole characters."""

from __future__ import annotations

import re
from collections.abc import Sequence
from types import TracebackType
from typing import Any

from bireme.core.base import errors
from bireme.core.base.extras import extra

LONGEST = 2**22  # characters of a text
UNKNOWN = "\ufffd"  # what bytes become that are no character, or not yet
PATIENCE = 8  # tokens after which bytes that are no character are not waited for any more


class _telling:
    """Errors of the package in one sentence: it raises plain exceptions."""

    def __init__(self, where: str, expected: str):
        self._where, self._expected = where, expected

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: BaseException | None, trace: TracebackType | None) -> None:
        if kind is Exception:
            raise errors.bad(self._where, self._expected, described=str(error)[:200]) from None


class Tokenizer:
    """A tokenizer of a tokenizer.json.

    Args:
        text: The contents of the file.

    Raises:
        ImportError: If the tokenizers package is not installed.
        ValueError: If it is no tokenizer.

    Examples:
        >>> import json
        >>> words = {"type": "WordLevel", "vocab": {"hello": 0, "world": 1, "?": 2}, "unk_token": "?"}
        >>> given = {"version": "1.0", "model": words, "pre_tokenizer": {"type": "Whitespace"}, "added_tokens": []}
        >>> tokenizer = bireme.llm.Tokenizer(json.dumps(given))
        >>> tokenizer.encode("hello world"), tokenizer.decode([1, 0])
        ([0, 1], 'world hello')
    """

    def __init__(self, text: str):
        package = extra("tokenizers", "llm", "to turn text into tokens")
        with _telling("Tokenizer(text)", "the contents of a tokenizer.json"):
            self._made = package.Tokenizer.from_str(text)
        self._made.no_truncation()
        self._made.no_padding()

    @property
    def text(self) -> str:
        """The contents of its tokenizer.json."""
        return self._made.to_str()

    def __len__(self) -> int:
        """Number of tokens, added ones included."""
        return self._made.get_vocab_size()

    def encode(self, text: str, special: bool = True) -> list[int]:
        """Return the tokens of a text.

        Args:
            text: The text, of at most 4 Mi characters.
            special: Whether to add what the tokenizer adds, as the token that begins a text; False for text of a chat
                template, which has it. Default: True.

        Returns:
            List of tokens.
        """
        if not isinstance(text, str):
            raise errors.bad("Tokenizer.encode(text)", "a str", text, kind=errors.ArgumentTypeError)
        if len(text) > LONGEST:
            raise errors.bad("Tokenizer.encode(text)", f"at most {LONGEST} characters", len(text))
        with _telling("Tokenizer.encode(text)", "text that has tokens"):
            return self._made.encode(text, add_special_tokens=special).ids

    def decode(self, tokens: Sequence[int], special: bool = False) -> str:
        """Return the text of tokens.

        Args:
            tokens: The tokens.
            special: Whether special tokens are shown. Default: False.

        Returns:
            The text; bytes that are no character become U+FFFD.
        """
        with _telling("Tokenizer.decode(tokens)", "tokens of the vocabulary"):
            return self._made.decode(list(tokens), skip_special_tokens=not special)

    def id(self, token: str) -> int | None:
        """Return the number of a token, or None where there is no such token.

        Args:
            token: The token's text.

        Returns:
            The number, or None.
        """
        return self._made.token_to_id(token)


def bytes_of(tokenizer: Tokenizer, token: int) -> bytes | None:
    """The bytes of a token that is no whole character, where its name tells them: by letters that stand for bytes, as GPT-2's
    vocabulary has them, or as `<0xE2>`.
    """
    name = tokenizer._made.id_to_token(token) or ""
    if re.fullmatch("<0x[0-9A-F]{2}>", name):
        return bytes([int(name[3:5], 16)])
    return bytes([_BYTES[letter] for letter in name]) if name and _BYTES.keys() >= set(name) else None


# bytes that are printed stand for themselves, the others for letters from U+0100 on
_PRINTED = [*range(33, 127), *range(161, 173), *range(174, 256)]
_BYTES = {chr(b): b for b in _PRINTED} | {chr(256 + i): b for i, b in enumerate(sorted({*range(256)} - {*_PRINTED}))}


class Stream:
    """The text of tokens as they come. What a tokenizer makes of a token depends on those before it, so a few of them
    are decoded again; what may still change is held back. `special`: whether special tokens are part of it.
    """

    def __init__(self, tokenizer: Tokenizer, special: bool = False):
        self._tokenizer, self._special = tokenizer, special
        self._tokens: list[int] = []  # since the last piece but one
        self._told = 0  # how many of them were told
        self._shown = ""  # their text

    def push(self, token: int) -> str:
        """The text that is certain with one more token."""
        self._tokens.append(token)
        text = self._decoded()
        if text.endswith(UNKNOWN) and len(self._tokens) - self._told <= PATIENCE:
            return ""
        return self._tell(text)

    def end(self) -> str:
        """What is left."""
        return self._tell(self._decoded()) if len(self._tokens) > self._told else ""

    def _tell(self, text: str) -> str:
        piece = text[len(self._shown) :]
        del self._tokens[: self._told]
        self._told = len(self._tokens)
        self._shown = self._decoded()
        return piece

    def _decoded(self) -> str:
        return self._tokenizer.decode(self._tokens, self._special)


class Stops:
    """Text up to the first of some strings, though it comes in pieces: what may be a beginning of one is held back."""

    def __init__(self, stops: Sequence[str]):
        self._stops, self._held = tuple(stops), ""
        self.found = False

    def push(self, piece: str) -> str:
        """The text that is certain with one more piece; `found` tells that a string has come."""
        text = self._held + piece
        if not self._stops:
            return text
        places = [at for at in (text.find(s) for s in self._stops) if at >= 0]
        if places:
            self.found, self._held = True, ""
            return text[: min(places)]
        keep = max((n for s in self._stops for n in range(1, len(s)) if text.endswith(s[:n])), default=0)
        self._held = text[len(text) - keep :]
        return text[: len(text) - keep]

    def end(self) -> str:
        """What is left."""
        held, self._held = self._held, ""
        return held
