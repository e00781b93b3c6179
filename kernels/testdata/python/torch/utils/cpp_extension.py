def load_inline(name, sources):
    """Build from text."""
    return _jit_compile(name, sources)


def load(name, sources):
    return _jit_compile(name, sources)


def _jit_compile(name, sources):
    if sources == "broken":
        raise RuntimeError("Error building extension " + name)
    return name
