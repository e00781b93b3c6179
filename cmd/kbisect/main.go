/*
Kbisect finds the change that made a GPU kernel time out, slow down, crash or compute nonsense.

It walks a git history, builds and runs each candidate under limits for every phase, and names the
guilty commit, the phase, the evidence and the price. The user's work tree, index, HEAD and refs are
never touched; kbisect exports candidates into folders of its own.

Its manual is the folder docs, a page for each topic: kbisect help topics lists them.
*/
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
