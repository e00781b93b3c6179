package main

import (
	"time"

	"github.com/urfave/cli/v2"

	"github.com/kbisect/kbisect/cmd/kbisect/internal/config"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/progress"
)

// durationValue is a flag that takes what parseDuration takes.
type durationValue time.Duration

// Set implements flag.Value.
func (v *durationValue) Set(s string) error {
	d, err := config.ParseDuration(s)
	*v = durationValue(d)
	return err
}

// String implements flag.Value.
func (v *durationValue) String() string { return time.Duration(*v).String() }

func durationFlag(name, usage, standard string) cli.Flag {
	return &cli.GenericFlag{Name: name, Usage: usage, Value: new(durationValue), DefaultText: standard}
}

// duration is the value of a durationFlag, 0 when it was not given.
func duration(c *cli.Context, name string) time.Duration {
	v, ok := c.Generic(name).(*durationValue)
	if !ok {
		return 0
	}
	return time.Duration(*v)
}

// newDisplay shows progress on standard error.
func newDisplay(c *cli.Context) *progress.Display {
	return progress.New(c.App.ErrWriter, globals(c).quiet, globals(c).verbose)
}
