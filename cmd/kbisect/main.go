package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/kbisect/kbisect/pipeline/proc"
)

func main() {
	if proc.Warden() { // this process was started to watch over trials
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	broken := make(chan os.Signal, 1)
	signal.Notify(broken, syscall.SIGPIPE)
	go endWithReader(broken, stop)
	code := run(ctx, os.Args, os.Stdin, os.Stdout, os.Stderr)
	stop()
	proc.Close()
	os.Exit(code)
}

// endWithReader calls stop when nobody reads the output any more. A SIGPIPE alone does not say so:
// it also comes from a pipe to a process of ours that has ended before we wrote to it.
func endWithReader(broken <-chan os.Signal, stop func()) {
	for range broken {
		fds := []unix.PollFd{{Fd: 1}, {Fd: 2}} // standard output and standard error
		if _, err := unix.Poll(fds, 0); err != nil || (fds[0].Revents|fds[1].Revents)&(unix.POLLERR|unix.POLLHUP) != 0 {
			stop()
		}
	}
}
