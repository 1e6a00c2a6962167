"""The switch of Paddle's primitive operators: derivatives of any order need none here, so it switches nothing."""


def enable_prim() -> None:
    """Ask for derivatives of higher order; they are always there.

    >>> bireme.incubate.autograd.enable_prim()
    """


def disable_prim() -> None:
    """Take `enable_prim` back.

    >>> bireme.incubate.autograd.disable_prim()
    """
