"""A helper in another file than the models that call it."""

SCALE = 3.0


def scaled(x):
    return SCALE * shifted(x)


def shifted(x):
    return x + 1.0
