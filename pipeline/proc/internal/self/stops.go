package self

import (
	"os"
	"os/signal"
	"runtime"

	"golang.org/x/sys/unix"
)

// OnStop calls before and after around a stop that the user wants: by Ctrl-Z, or since this process uses a terminal
// whose foreground is another's. A SIGSTOP comes from elsewhere, and without notice. As for any program, there has to
// be a terminal, whose shell continues what it has stopped.
func OnStop(before, after func()) {
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, unix.SIGTSTP, unix.SIGTTIN, unix.SIGTTOU)
	go func() {
		runtime.LockOSThread() // a signal to this thread is acted on before it goes on
		for range asked {
			if !terminal() {
				continue
			}
			before()
			_ = unix.Tgkill(os.Getpid(), unix.Gettid(), unix.SIGSTOP)
			select {
			case <-asked: // the same wish, told again before it was met
			default:
			}
			after()
		}
	}()
}

// terminal reports whether this process has a controlling terminal.
func terminal() bool {
	fd, err := unix.Open("/dev/tty", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return false
	}
	_ = unix.Close(fd)
	return true
}
