package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/kbisect/kbisect/pipeline/proc"
)

func main() {
	if proc.Warden() { // this process was started to watch over one trial
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGPIPE)
	code := run(ctx, os.Args, os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}
