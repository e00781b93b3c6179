import contextlib
import enum
import os

if not os.environ.get("OLD_TORCH"):

    class CallbackTrigger(enum.Enum):
        DYNAMO = 1
        CUDAGRAPH_RECORDING = 4

    class CompilationCallbackHandler:
        def __init__(self):
            self.start_callbacks, self.end_callbacks = [], []

        @contextlib.contextmanager
        def install_callbacks(self, trigger, compile_id):
            try:
                for f in self.start_callbacks:
                    f(trigger)
                yield
            finally:
                for f in self.end_callbacks:
                    f(trigger)

        def clear(self):
            self.start_callbacks.clear()
            self.end_callbacks.clear()

    callback_handler = CompilationCallbackHandler()
