import sys
from types import ModuleType

from . import callback

skipped = []
sys.modules["torch._C"] = c = ModuleType("torch._C")
c._dynamo = ModuleType("torch._C._dynamo")
c._dynamo.eval_frame = ModuleType("torch._C._dynamo.eval_frame")
c._dynamo.eval_frame.skip_code = lambda code: skipped.append(code.co_name)


def convert():
    return _compile()


def _compile():
    handler = getattr(callback, "callback_handler", None)
    if handler is None:
        return
    with handler.install_callbacks(callback.CallbackTrigger.DYNAMO, "0/0"):
        import triton

        triton.compile("inductor")  # within the compilation: not told again
    with handler.install_callbacks(callback.CallbackTrigger.CUDAGRAPH_RECORDING, "0/0"):
        pass
