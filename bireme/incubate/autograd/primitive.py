"""The switch of Paddle's primitive operators: derivatives of any order need none here, so it only says how it stands."""

_enabled = [False]


def enable_prim() -> None:
    """Ask for derivatives of higher order; they are always there.

    >>> bireme.incubate.autograd.enable_prim()
    """
    _enabled[0] = True


def disable_prim() -> None:
    """Take `enable_prim` back.

    >>> bireme.incubate.autograd.disable_prim()
    """
    _enabled[0] = False


def prim_enabled() -> bool:
    """How the switch stands.

    >>> bireme.incubate.autograd.prim_enabled()
    False
    """
    return _enabled[0]
