package trial

import (
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/kernels"
	"github.com/kbisect/kbisect/kernels/protocol"
	"github.com/kbisect/kbisect/pipeline/proc"
)

// limited are limits of 10 s for load and 2 s for teardown, under which a good run takes 100 ms as a whole.
func limited(hurry string) Bounds {
	return Bounds{
		Limits: Limits{Build: time.Minute, Run: time.Minute, Phases: map[string]kernels.Limit{"load": {Abs: 10 * time.Second}, teardown: {Abs: 2 * time.Second}}},
		Good:   map[string]time.Duration{bisect.WholeTrial: 100 * time.Millisecond, "load": 50 * time.Millisecond, "build": time.Millisecond},
		Hurry:  hurry,
	}
}

// Every way in which a process can end, and which rule wins where several match.
func TestClassify(t *testing.T) {
	const stack = "Fatal Python error: Aborted\n\nCurrent thread 0x00007f (most recent call first):\n  File \"bench.py\", line 7 in wait\n"
	timeout := func(phase string, whole bool) proc.Result {
		return proc.Result{Exit: -1, Signal: syscall.SIGTERM, Timeout: &proc.Timeout{Phase: phase, Whole: whole}}
	}
	with := func(res proc.Result, change func(*proc.Result)) proc.Result {
		change(&res)
		return res
	}
	killed, asked := proc.Result{Exit: -1, Signal: syscall.SIGKILL}, proc.Result{Exit: -1, Signal: syscall.SIGTERM}
	exit := func(code int, tail string) proc.Result { return proc.Result{Exit: code, Tail: []byte(tail)} }
	slowLoad := []bisect.PhaseTime{{Name: "load", Seconds: 12}, {Name: "measure", Seconds: 99}}
	fails := protocol.Said{Wrong: "off by one", FailedIn: "check"}
	elsewhere := protocol.Said{Wrong: "off by one", FailedIn: "other"}
	inCase := protocol.Said{Case: "n=4"}
	popcorn := func(class bisect.Class, why string) *popcornEnd { return &popcornEnd{class: class, why: why} }
	test := kernels.Stage{Name: "test", Limit: 5 * time.Second, Killed: 114}

	for name, c := range map[string]struct {
		in   ended
		want bisect.Outcome
	}{
		"ok":                                         {ended{phase: "measure"}, bisect.Outcome{Class: bisect.OK}},
		"ok, with one process left":                  {ended{res: proc.Result{Leftover: 1}}, bisect.Outcome{Class: bisect.OK, Warnings: []string{"1 process was still running when the trial had ended; it was killed"}}},
		"ok, with processes left":                    {ended{res: proc.Result{Leftover: 3}}, bisect.Outcome{Class: bisect.OK, Warnings: []string{"3 processes were still running when the trial had ended; they were killed"}}},
		"KernelBot's pools leave a process":          {ended{res: proc.Result{Leftover: 1}, popcorn: popcorn(bisect.OK, "")}, bisect.Outcome{Class: bisect.OK}},
		"a phase without a limit may take its time":  {ended{phases: slowLoad[1:]}, bisect.Outcome{Class: bisect.OK}},
		"a phase took too long":                      {ended{phases: slowLoad, res: proc.Result{Leftover: 1}}, bisect.Outcome{Class: bisect.Timeout, Limit: 10, Phase: "load", Why: "12 s in load, limit 10s"}},
		"it reports the machine's fault":             {ended{reported: protocol.Said{Infra: "device lost"}, phase: "check"}, bisect.Outcome{Class: bisect.Infra, Phase: "check", Why: "device lost"}},
		"the machine's fault before its time-out":    {ended{reported: protocol.Said{Infra: "device lost"}, res: timeout("load", false)}, bisect.Outcome{Class: bisect.Infra, Why: "device lost"}},
		"killed from outside":                        {ended{res: killed, phase: "load"}, bisect.Outcome{Class: bisect.Infra, Phase: "load", Why: "it was killed by SIGKILL, which kbisect did not send"}},
		"killed from outside again":                  {ended{res: killed, phase: "load", suspected: true}, bisect.Outcome{Class: bisect.Crash, Phase: "load", Why: "ended by SIGKILL"}},
		"asked to end, with all of a job":            {ended{res: asked, phase: "load"}, bisect.Outcome{Class: bisect.Infra, Phase: "load", Why: "it was killed by SIGTERM, which kbisect did not send"}},
		"a shell whose program was asked to end":     {ended{res: proc.Result{Exit: 143}, phase: "load"}, bisect.Outcome{Class: bisect.Infra, Phase: "load", Why: "it ended as what is killed by SIGTERM does (exit 143)"}},
		"asked to end again":                         {ended{res: asked, phase: "load", suspected: true}, bisect.Outcome{Class: bisect.Crash, Phase: "load", Why: "ended by SIGTERM"}},
		"killed because memory ran out":              {ended{res: proc.Result{Signal: syscall.SIGKILL, OOMKilled: true, OOMWhere: "trial"}}, bisect.Outcome{Class: bisect.Crash, Why: "out of memory: it reached its limit"}},
		"the machine's memory went to it":            {ended{res: proc.Result{Signal: syscall.SIGKILL, OOMKilled: true, OOMWhere: "machine", OOMOwn: true}}, bisect.Outcome{Class: bisect.Infra, Why: machineMemory}},
		"the machine's memory went to it again":      {ended{res: proc.Result{Signal: syscall.SIGKILL, OOMKilled: true, OOMWhere: "machine", OOMOwn: true}, suspected: true}, bisect.Outcome{Class: bisect.Crash, Why: "out of memory: it held more than half of what the machine, or a group above, has"}},
		"it failed while memory ran out":             {ended{res: proc.Result{Exit: 9, OOMWhere: "near"}}, bisect.Outcome{Class: bisect.Infra, Why: "it failed while the kernel killed a process because the machine, or a group above, ran out of memory"}},
		"it failed while memory ran out again":       {ended{res: proc.Result{Exit: 9, OOMWhere: "near"}, suspected: true}, bisect.Outcome{Class: bisect.Wrong, Why: "exit 9"}},
		"it did well while memory ran out":           {ended{res: proc.Result{OOMWhere: "near"}}, bisect.Outcome{Class: bisect.OK}},
		"a child of it took the machine's memory":    {ended{res: proc.Result{OOMKilled: true, OOMWhere: "machine", OOMOwn: true}}, bisect.Outcome{Class: bisect.OK}},
		"stopped from outside":                       {ended{res: with(timeout("load", false), func(r *proc.Result) { r.Halted = true })}, bisect.Outcome{Class: bisect.Infra, Why: "it was stopped by a signal, and so reached its limit"}},
		"its supervisor was killed":                  {ended{res: proc.Result{KilledParent: true, Signal: syscall.SIGKILL}}, bisect.Outcome{Class: bisect.Infra, Why: "the process that supervises the trial was killed"}},
		"it kills its supervisor again":              {ended{res: proc.Result{KilledParent: true, Signal: syscall.SIGKILL}, suspected: true}, bisect.Outcome{Class: bisect.Crash, Why: "it kills the process that supervises it"}},
		"kbisect was kept stopped":                   {ended{res: proc.Result{StoppedParent: true, Signal: syscall.SIGKILL}}, bisect.Outcome{Class: bisect.Infra, Why: "kbisect, or the process that supervises the trial, was stopped by a signal again and again"}},
		"it keeps kbisect stopped again":             {ended{res: proc.Result{StoppedParent: true, Signal: syscall.SIGKILL}, suspected: true}, bisect.Outcome{Class: bisect.Crash, Why: "it stops kbisect, or the process that supervises it, by signals"}},
		"a phase reached its limit":                  {ended{res: timeout("load", false), phase: "load", reported: inCase}, bisect.Outcome{Class: bisect.Timeout, Limit: 10, Phase: "load", Why: "load reached its limit of 10s in case n=4"}},
		"a time-out wins over a failed check":        {ended{res: timeout("load", false), phase: "load", reported: fails}, bisect.Outcome{Class: bisect.Timeout, Limit: 10, Phase: "load", Why: "load reached its limit of 10s"}},
		"a time-out of Python":                       {ended{res: with(timeout("load", false), func(r *proc.Result) { r.Tail = []byte(stack) }), phase: "load"}, bisect.Outcome{Class: bisect.Timeout, Limit: 10, Phase: "load", Why: "load reached its limit of 10s at bench.py:7 in wait"}},
		"the whole trial reached its limit":          {ended{res: timeout("load", true), phase: "load"}, bisect.Outcome{Class: bisect.Timeout, Limit: 60, Phase: "load", Whole: true, Why: "the whole trial reached its limit of 1m0s"}},
		"stopped early, in a hurry as a whole":       {ended{res: timeout("load", true), phase: "load", bounds: limited(bisect.WholeTrial)}, bisect.Outcome{Class: bisect.Timeout, Limit: 5.18221188, Phase: "load", Whole: true, Early: true, Why: "stopped after 5.182s, where the good end takes 0.1 s as a whole"}},
		"stopped early, in a hurry for a phase":      {ended{res: timeout("load", false), phase: "load", bounds: limited("load")}, bisect.Outcome{Class: bisect.Timeout, Limit: 5.09110594, Phase: "load", Early: true, Why: "stopped after 5.091s, where the good end takes 0.05 s in load"}},
		"a hurry for another phase":                  {ended{res: timeout("load", false), phase: "load", bounds: limited("measure")}, bisect.Outcome{Class: bisect.Timeout, Limit: 10, Phase: "load", Why: "load reached its limit of 10s"}},
		"a stage reached its limit":                  {ended{res: timeout("check", true), phase: "check", stage: test, ownLimit: true}, bisect.Outcome{Class: bisect.Timeout, Limit: 5, Phase: "check", Why: "stage test reached its limit of 5s; KernelBot reports exit 114"}},
		"a process without a name reached its limit": {ended{res: timeout("check", true), phase: "check", stage: kernels.Stage{Limit: time.Second}, ownLimit: true}, bisect.Outcome{Class: bisect.Timeout, Limit: 1, Phase: "check", Why: "the process reached its limit of 1s"}},
		"a child keeps the output open":              {ended{res: with(timeout(teardown, false), func(r *proc.Result) { r.Held = true }), phase: teardown, reported: inCase}, bisect.Outcome{Class: bisect.Timeout, Limit: 2, Phase: teardown, Why: "teardown reached its limit of 2s; it had ended, but a process that it left running keeps its output open"}},
		"a supposed teardown":                        {ended{res: timeout(teardown, false), phase: teardown, supposed: true}, bisect.Outcome{Class: bisect.Timeout, Limit: 2, Phase: teardown, Supposed: true, Why: "teardown reached its limit of 2s"}},
		"a supposed teardown in a search":            {ended{res: timeout(teardown, false), phase: teardown, supposed: true, searching: true}, bisect.Outcome{Class: bisect.Timeout, Limit: 2, Phase: teardown, Supposed: true, Early: true, Why: "teardown reached its limit of 2s"}},
		"a reported teardown in a search":            {ended{res: timeout(teardown, false), phase: teardown, searching: true}, bisect.Outcome{Class: bisect.Timeout, Limit: 2, Phase: teardown, Why: "teardown reached its limit of 2s"}},
		"a signal":                                   {ended{res: proc.Result{Exit: -1, Signal: syscall.SIGSEGV}, phase: "check"}, bisect.Outcome{Class: bisect.Crash, Phase: "check", Why: "ended by SIGSEGV"}},
		"a signal wins over KernelBot's exit codes":  {ended{res: proc.Result{Exit: -1, Signal: syscall.SIGSEGV}, popcorn: popcorn(bisect.Skip, "exit 113")}, bisect.Outcome{Class: bisect.Crash, Why: "ended by SIGSEGV"}},
		"a shell's exit code for a signal":           {ended{res: exit(139, "Segmentation fault\n"), phase: "run", reported: fails}, bisect.Outcome{Class: bisect.Crash, Phase: "run", Why: "exit 139 (Segmentation fault)"}},
		"a compiler gave up at run time":             {ended{res: exit(134, "ninja: build stopped: subcommand failed.\n"), compiles: true}, bisect.Outcome{Class: bisect.BuildFailed, Why: "ninja: build stopped: subcommand failed."}},
		"a compiler's words and a good exit":         {ended{res: exit(0, "ninja: build stopped: subcommand failed.\n"), compiles: true}, bisect.Outcome{Class: bisect.OK}},
		"a compiler's words of another program":      {ended{res: exit(1, "ninja: build stopped: subcommand failed.\n")}, bisect.Outcome{Class: bisect.Wrong, Why: "exit 1 (ninja: build stopped: subcommand failed.)"}},
		"it reports a skip":                          {ended{reported: protocol.Said{Skip: "no tensor cores", Wrong: "off"}, res: exit(1, ""), phase: "load"}, bisect.Outcome{Class: bisect.Skip, Phase: "load", Why: "no tensor cores"}},
		"exit 125":                                   {ended{res: exit(125, ""), reported: fails, phase: "load"}, bisect.Outcome{Class: bisect.Skip, Phase: "load", Why: "the command asked to skip (exit 125)"}},
		"a failed check":                             {ended{reported: fails, phase: teardown}, bisect.Outcome{Class: bisect.Wrong, Phase: "check", Why: "off by one"}},
		"a failed check and a non-zero exit":         {ended{reported: fails, phase: teardown, res: exit(1, "bye\n")}, bisect.Outcome{Class: bisect.Wrong, Phase: "check", Why: "off by one"}},
		"a non-zero exit":                            {ended{res: exit(3, "a\nlast words\n"), phase: "run", phases: slowLoad}, bisect.Outcome{Class: bisect.Wrong, Phase: "run", Why: "exit 3 (last words)"}},
		"an exception of Python": {ended{res: exit(1, "Traceback (most recent call last):\n  File \"b.py\", line 1, in <module>\nValueError: nan\n"), phase: "run"},
			bisect.Outcome{Class: bisect.Wrong, Phase: "run", Why: "exit 1 (ValueError: nan)", Error: "ValueError"}},

		"KernelBot: ok":                            {ended{popcorn: popcorn(bisect.OK, ""), res: exit(1, "")}, bisect.Outcome{Class: bisect.OK}},
		"KernelBot: a phase took too long":         {ended{popcorn: popcorn(bisect.OK, ""), phases: slowLoad}, bisect.Outcome{Class: bisect.Timeout, Limit: 10, Phase: "load", Why: "12 s in load, limit 10s"}},
		"KernelBot: more than a pipe holds":        {ended{popcorn: &popcornEnd{overflows: true, class: bisect.OK}, stage: test, phase: teardown}, bisect.Outcome{Class: bisect.Timeout, Phase: "test", Why: "it sent more on POPCORN_FD than a pipe holds: on the server it waits until its limit; KernelBot reports exit 114"}},
		"KernelBot: wrong":                         {ended{popcorn: popcorn(bisect.Wrong, "case n: 4"), phase: "test/check", stage: test}, bisect.Outcome{Class: bisect.Wrong, Phase: "test/check", Why: "case n: 4"}},
		"KernelBot: wrong in its last word":        {ended{popcorn: popcorn(bisect.Wrong, "the check failed"), phase: teardown, stage: test}, bisect.Outcome{Class: bisect.Wrong, Phase: "test", Why: "the check failed"}},
		"KernelBot: the check has its own phase":   {ended{popcorn: popcorn(bisect.Wrong, "off"), reported: elsewhere, phase: "test/check"}, bisect.Outcome{Class: bisect.Wrong, Phase: "test/check", Why: "off"}},
		"KernelBot: a crash":                       {ended{popcorn: popcorn(bisect.Crash, "exit 1, no check was sent"), phase: "test/load", res: exit(1, "boom\n")}, bisect.Outcome{Class: bisect.Crash, Phase: "test/load", Why: "exit 1, no check was sent (boom)"}},
		"KernelBot: a skip":                        {ended{popcorn: popcorn(bisect.Skip, "exit 113"), phase: "test/load", res: exit(113, "boom\n")}, bisect.Outcome{Class: bisect.Skip, Phase: "test/load", Why: "exit 113"}},
		"KernelBot: its own time-out":              {ended{popcorn: popcorn(bisect.Timeout, "exit 114"), phase: "load", res: exit(114, "")}, bisect.Outcome{Class: bisect.Timeout, Phase: "load", Why: "exit 114"}},
		"KernelBot: exit 125 has no meaning":       {ended{popcorn: popcorn(bisect.Crash, "exit 125"), res: exit(125, "")}, bisect.Outcome{Class: bisect.Crash, Why: "exit 125"}},
		"KernelBot: killed at the whole's limit":   {ended{popcorn: popcorn(bisect.Skip, ""), res: timeout("load", true), phase: "load", stage: test}, bisect.Outcome{Class: bisect.Timeout, Limit: 60, Phase: "load", Whole: true, Why: "the whole trial reached its limit of 1m0s"}},
		"KernelBot: the machine's fault, reported": {ended{popcorn: popcorn(bisect.Skip, ""), reported: protocol.Said{Infra: "x"}}, bisect.Outcome{Class: bisect.Infra, Why: "x"}},
	} {
		if c.in.bounds.Good == nil {
			c.in.bounds = limited("")
		}
		if d := cmp.Diff(c.want, classify(c.in)); d != "" {
			t.Errorf("%s (-want +got):\n%s", name, d)
		}
	}
}

// Every way in which a build can end.
func TestClassifyBuild(t *testing.T) {
	killed := proc.Result{Exit: -1, Signal: syscall.SIGKILL}
	starved := proc.Result{Exit: -1, Signal: syscall.SIGKILL, OOMKilled: true, OOMWhere: "machine"}
	full := proc.Result{Exit: 1, Tail: []byte("write: No space left on device\n")}
	slow := proc.Result{Exit: -1, Signal: syscall.SIGTERM, Timeout: &proc.Timeout{Phase: "build", Limit: time.Minute}}
	for name, c := range map[string]struct {
		in   endedBuild
		want bisect.Outcome
	}{
		"it succeeded":                     {endedBuild{}, bisect.Outcome{}},
		"it failed":                        {endedBuild{res: proc.Result{Exit: 2, Tail: []byte("a.c:1: error: no\nmake: *** 2\n")}}, bisect.Outcome{Class: bisect.BuildFailed, Why: "exit 2 (a.c:1: error: no)"}},
		"a compiler crashed":               {endedBuild{res: proc.Result{Exit: -1, Signal: syscall.SIGSEGV}}, bisect.Outcome{Class: bisect.BuildFailed, Why: "ended by SIGSEGV"}},
		"it asked to skip":                 {endedBuild{res: proc.Result{Exit: 125}}, bisect.Outcome{Class: bisect.Skip, Why: "the build command asked to skip (exit 125)"}},
		"an output is missing":             {endedBuild{missing: []string{"out"}}, bisect.Outcome{Class: bisect.BuildFailed, Why: "the build succeeded but left no out, which is named as its output"}},
		"it reached its limit":             {endedBuild{res: slow}, bisect.Outcome{Class: bisect.Timeout, Limit: 60, Why: "the build did not end within 1m0s"}},
		"it was stopped early, in a hurry": {endedBuild{res: slow, bounds: limited("build")}, bisect.Outcome{Class: bisect.Timeout, Limit: 60, Early: true, Why: "stopped after 5.002s, where the good end takes 0.001 s in build"}},
		"it was killed from outside":       {endedBuild{res: killed}, bisect.Outcome{Class: bisect.Infra, Why: "the build failed: it was killed by SIGKILL, which kbisect did not send"}},
		"its compiler was killed":          {endedBuild{res: proc.Result{Exit: 137}}, bisect.Outcome{Class: bisect.Infra, Why: "the build failed: it ended as what is killed by SIGKILL does (exit 137)"}},
		"it was killed again":              {endedBuild{res: killed, suspected: true}, bisect.Outcome{Class: bisect.BuildFailed, Why: "ended by SIGKILL"}},
		"the machine ran out of memory":    {endedBuild{res: starved, suspected: true}, bisect.Outcome{Class: bisect.Infra, Why: "in the build " + Starved(starved)}},
		"the disk was full for a moment":   {endedBuild{res: full}, bisect.Outcome{Class: bisect.Infra, Why: "the build failed: it printed: write: No space left on device"}},
		"the disk is always full":          {endedBuild{res: full, suspected: true}, bisect.Outcome{Class: bisect.BuildFailed, Why: "exit 1 (write: No space left on device)"}},
		"words about a disk, and it built": {endedBuild{res: proc.Result{Tail: full.Tail}}, bisect.Outcome{}},
	} {
		if c.in.bounds.Good == nil {
			c.in.bounds = limited("")
		}
		if d := cmp.Diff(c.want, classifyBuild(c.in)); d != "" {
			t.Errorf("%s (-want +got):\n%s", name, d)
		}
	}
}
