# A worker of the compiler: its compilations are those of the process that waits for it.
import triton

triton.compile("kernel")
