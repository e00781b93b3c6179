from . import callback, convert_frame  # noqa: F401


def reset():
    handler = getattr(callback, "callback_handler", None)
    if handler is not None:
        handler.clear()
