def compile(src, target=None, options=None):
    """The compiler."""
    if callable(src):
        return src()
    return "cubin of " + src
