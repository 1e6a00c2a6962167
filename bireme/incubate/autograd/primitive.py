"""The switch of Paddle's primitive operators, without effect: derivatives of any order need none here."""

_enabled = [False]


def enable_prim() -> None:
    """Ask for higher-order derivatives, which are always available: it only sets what ``prim_enabled`` returns.

    Examples:
        >>> bireme.incubate.autograd.enable_prim()
        >>> bireme.incubate.autograd.prim_enabled()
        True
        >>> bireme.incubate.autograd.disable_prim()
    """
    _enabled[0] = True


def disable_prim() -> None:
    """Undo ``enable_prim``.

    Examples:
        >>> bireme.incubate.autograd.disable_prim()
        >>> bireme.incubate.autograd.prim_enabled()
        False
    """
    _enabled[0] = False


def prim_enabled() -> bool:
    """Return whether ``enable_prim`` was called.

    Returns:
        A bool.

    Examples:
        >>> bireme.incubate.autograd.prim_enabled()
        False
    """
    return _enabled[0]
