

def _hidden():
    """Runs the sitecustomize that this one hides; its errors are its own, as without us."""
    import os

    here = os.path.dirname(os.path.abspath(__file__))
    for i, entry in enumerate(sys.path):
        if entry and os.path.abspath(entry) == here:
            del sys.path[i]
            break
    ours = sys.modules.pop("sitecustomize", None)
    try:
        import sitecustomize  # noqa: F401
    except ImportError as e:
        if getattr(e, "name", "sitecustomize") != "sitecustomize":
            raise
    finally:
        # The import that runs us takes its result from here.
        if "sitecustomize" not in sys.modules and ours is not None:
            sys.modules["sitecustomize"] = ours


_hidden()
