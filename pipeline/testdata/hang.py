"""Goes through the phases of a trial and hangs in the one that is named, see hang.c."""
import os, signal, sys, time

fd = int(os.environ["KBISECT_FD"])


def say(line):
    os.write(fd, (line + "\n").encode())


def hang():
    if len(sys.argv) > 2:
        if os.fork() == 0:
            os.setsid()
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            if os.fork() != 0:
                os._exit(0)
            while True:
                time.sleep(1)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    while True:
        time.sleep(1)


where = sys.argv[1] if len(sys.argv) > 1 else ""
for phase in ["load", "warmup", "capture", "check", "measure"]:
    if phase != "load":
        say("phase: " + phase)
    if phase == where:
        hang()
    if phase == "check":
        say("check: pass")
    if phase == "measure":
        say("sample: 3 us")
        say("sample: 4 us")
if where == "teardown":
    hang()
