package policy

import (
	"fmt"
	"io"
	"time"
)

// Request is what the command line asks for, as plain data. The zero value of a field
// means that its option was not given or that the command has none of that name; where
// the difference between a default and an option given matters, a field named Set tells.
type Request struct {
	Name        string // of the command: "run", "baseline record"
	Usage       string // how it is called, for hints: "run --good REV"
	Dir, Config string // -C, --config
	Quiet       bool
	Warnings    io.Writer // receives warnings as they come up; may be nil
	Argv        []string  // the command after --; nil: kbisect.toml says how to build and run

	Good, Bad       string
	GoodSet, BadSet bool
	FindGood        bool
	FirstParent     bool
	Axis, Commit    string
	Find, Phase     string
	Metric          string
	Improvement     bool
	All             bool
	Paths           []string
	NoHunks         bool
	Budget, Limit   time.Duration
	BudgetSet       bool
	Jobs            int
	JobsSet         bool
	Seed            int64
	As              string
	Build           string
	Outputs         []string
	Repeat          int
	Fast            bool
	ExplainLimit    time.Duration
	NoExplain       bool
	Resume          bool

	Effect   string
	Error    float64
	ErrorSet bool
	Pairs    int
	PairsSet bool
	Launches int
	Profile  bool // launches under profilers are wanted
}

// warn shows warnings at once, before an hour is spent on what they are about.
func (q *Request) warn(warnings []string) {
	if q.Quiet || q.Warnings == nil {
		return
	}
	for _, w := range warnings {
		fmt.Fprintln(q.Warnings, "kbisect: warning: "+w)
	}
}
