package pipeline

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/kernels"
	"github.com/kbisect/kbisect/pipeline/proc"
)

// protocolVariable names the descriptor on which a program under test speaks.
const protocolVariable = "KBISECT_FD"

// trial makes one trial of what the slot holds. One that is for its times finds the caches as a
// first process of the same candidate left them, unless the user wants them judged empty.
func (s *slot) trial(ctx context.Context, r bisect.Request) (bisect.Outcome, error) {
	warm := s.Caches == Warm || s.Caches == "" && r.Timing
	if warm && s.caches.warmed == r.Candidate {
		o, err := s.launch(ctx, r)
		if err == nil && holdsFiles(s.caches.dir) {
			o.Caches = string(Warm)
		}
		return o, err
	}
	if err := s.caches.clear(); err != nil {
		return bisect.Outcome{}, &bisect.InfraError{What: "clearing the caches of " + s.name, Err: err}
	}
	first, err := s.launch(ctx, r)
	if err != nil || first.Class != bisect.OK {
		return first, err
	}
	s.caches.warmed = r.Candidate
	if !holdsFiles(s.caches.dir) {
		return first, nil
	}
	first.Caches = string(Cold)
	if s.Caches == Cold {
		return first, nil
	}
	if !warm {
		first.Unfit = "it filled empty caches"
		return first, nil
	}
	second, err := s.launch(ctx, r)
	second.Cold, second.Caches = first.Phases, string(Warm)
	return second, err
}

// launch starts the program in the slot once.
func (s *slot) launch(ctx context.Context, r bisect.Request) (bisect.Outcome, error) {
	l := s.listen(r)
	env, err := s.runEnv(r)
	if err != nil {
		return bisect.Outcome{}, err
	}
	spec := proc.Spec{
		Argv: s.argv(r.Candidate), Dir: s.dir, Env: env, Output: s.logFile(r, "run"), Tail: tailMax,
		Limit: s.bound(r, bisect.WholeTrial), Phase: l.said.Phase(),
		Protocol: protocolVariable, Watch: l.line, Closed: l.closed,
	}
	spec.PhaseLimit = s.bound(r, spec.Phase)
	if len(s.Patterns) > 0 {
		spec.OnOutput = l.output
	}
	probed := s.probes(r, spec.Argv)
	if probed {
		dir := filepath.Join(s.Dir, "probe")
		if err := kernels.WriteProbe(dir); err != nil {
			return bisect.Outcome{}, &bisect.InfraError{What: "writing the probe for Python", Err: err}
		}
		spec.Env = kernels.ProbeEnv(spec.Env, dir)
	}
	s.activity(r, spec.Phase, s.limitOr(spec.PhaseLimit))
	before := s.watch()
	if r.Timing && (l.said.Base == "" || s.WholeTimed) {
		s.ahead.freeze(true)
	}
	defer s.ahead.freeze(false)
	res, err := s.run(ctx, spec)
	if errors.Is(err, syscall.ENOEXEC) { // a script without a #! line is the shell's, as for a shell
		spec.Argv = append([]string{"/bin/sh"}, spec.Argv...)
		res, err = s.run(ctx, spec)
	}
	if err != nil {
		return s.cannotStart(r, spec.Argv[0], err)
	}
	n := s.since(ctx, before)
	l.ended(res)
	o := l.outcome(res)
	o.Log, o.Devices, o.Memory = spec.Output, n.notes, res.MemoryPeak
	if probed && s.Probe != ProbeOn && o.Class == bisect.OK {
		o.Unfit = "the probe was with it"
	}
	marked(&o, n, res)
	if o.Unfit == "" && !r.Timing && len(o.Marks) > 0 {
		o.Unfit = o.Marks[0]
	}
	if res.Timeout != nil || res.Signal != 0 {
		if err := s.caches.clear(); err != nil {
			return o, &bisect.InfraError{What: "clearing the caches of " + s.name, Err: err}
		}
	}
	fault, err := s.machineFault(ctx, r.Candidate, o, res, n)
	if fault != "" {
		o.Class, o.Why = bisect.Infra, fault
	}
	return o, err
}

// tailMax is how much of the output is looked at for words about the machine and for stacks;
// tailKept how much of it is kept with the trial.
const (
	tailMax  = 64 << 10
	tailKept = 4 << 10
)

// argv is the run command. A script that the candidate does not hold, but the user's work tree
// does, is taken from there, as `git bisect run ./untracked-script` would: the program itself, or
// the first argument of an interpreter. Other arguments are the candidate's business.
func (s *slot) argv(c bisect.Candidate) []string {
	set, _ := s.settings(c) // a wrong one has been told
	argv := slices.Concat(s.Plan.Run, set.Args())
	i := 0
	if len(argv) > 1 && interpreter.MatchString(filepath.Base(argv[0])) {
		i = 1
	}
	name := argv[i]
	if s.WorkTree == "" || filepath.IsAbs(name) || i == 0 && !strings.Contains(name, "/") || exists(filepath.Join(s.dir, name)) {
		return argv
	}
	if own := filepath.Join(s.WorkTree, name); exists(own) {
		argv[i] = own
		if isBinary(own) {
			s.warnOnce(fmt.Sprintf("%s is taken from the work tree, the same program for every commit\nhint: to test what a commit holds, build it: --build 'SHELL COMMAND'", name))
		}
	}
	return argv
}

// isBinary tells a compiled program from a script.
func isBinary(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	magic := make([]byte, 4)
	_, err = io.ReadFull(f, magic)
	return err == nil && string(magic) == "\x7fELF"
}

// interpreter matches programs whose first argument is a script.
var interpreter = regexp.MustCompile(`^(sh|dash|bash|zsh|ksh|fish|python[0-9.]*|perl|ruby|node)$`)

func exists(path string) bool {
	st, err := os.Stat(path)
	return err == nil && st.Mode().IsRegular()
}

func (p *Pipeline) limitOr(d time.Duration) time.Duration {
	if d > 0 {
		return d
	}
	return p.Limits.Run
}

// outcome classifies how a trial ended. What the program says of itself comes first, then how it
// died, then what it left unsaid.
func (l *listener) outcome(res proc.Result) bisect.Outcome {
	said, phase := &l.said, l.said.Phase()
	o := bisect.Outcome{
		Class: bisect.OK, Exit: res.Exit, Speaks: said.Speaks(), Wall: res.Wall.Seconds(),
		Tail: string(res.Tail[max(0, len(res.Tail)-tailKept):]), Warnings: said.Warnings(),
	}
	if res.Signal != 0 {
		o.Signal = signalName(res.Signal)
	}
	for _, ph := range said.Phases(l.until, res.Timeout != nil || res.Signal != 0) {
		o.Phases = append(o.Phases, bisect.PhaseTime(ph))
	}
	for _, x := range append(said.Series(), l.series...) {
		o.Series = append(o.Series, bisect.Series(x))
	}
	fail := func(c bisect.Class, why string) { o.Class, o.Phase, o.Why = c, phase, why }
	words := said.Said()
	switch {
	case words.IsInfra:
		fail(bisect.Infra, words.Infra)
	case assault(res) != "" && !l.assaulted(l.r.Candidate):
		fail(bisect.Infra, assault(res))
	case res.Timeout != nil:
		o.Whole = res.Timeout.Whole
		fail(bisect.Timeout, "")
		o.Why, o.Early = l.timeoutWords(phase, o.Whole)
		o.Why += stackWords(res.Tail)
		if o.Supposed = phase == teardown && said.Supposed(); o.Supposed {
			o.Early = o.Early || l.r.Purpose == bisect.Searching
		}
	case res.KilledParent:
		fail(bisect.Crash, "it kills the process that supervises it")
	case res.Signal != 0 || res.Exit >= 128:
		fail(bisect.Crash, ended(res)+stackWords(res.Tail))
	case words.IsSkip:
		fail(bisect.Skip, words.Skip)
	case res.Exit == 125:
		fail(bisect.Skip, "the command asked to skip (exit 125)")
	case words.IsWrong:
		fail(bisect.Wrong, words.Wrong)
	case res.Exit != 0:
		fail(bisect.Wrong, ended(res)+lastWords(res.Tail))
	default:
		l.overdue(&o)
	}
	if o.Class == bisect.OK {
		o.Shape = asJSON(said.Shape())
	}
	if o.Class == bisect.OK && res.Leftover > 0 {
		o.Warnings = append(o.Warnings, fmt.Sprintf("%d processes were still running when the trial had ended; they were killed", res.Leftover))
	}
	return o
}

// assault says by whose doing, other than the candidate's, a step may have ended as it did, or "".
// The candidate may have done the same to itself.
func assault(res proc.Result) string {
	switch {
	case res.Timeout != nil && res.Halted:
		return "it was stopped by a signal, and so came to its limit"
	case res.Timeout != nil:
		return ""
	case res.KilledParent:
		return "the process that supervises the trial was killed"
	case res.Signal == syscall.SIGKILL && !res.OOMKilled:
		return "it was killed by SIGKILL, which kbisect did not send"
	}
	return ""
}

// timeoutWords says which limit was reached, and whether it was haste rather than the true one.
func (l *listener) timeoutWords(phase string, whole bool) (why string, early bool) {
	name := phase
	if whole {
		phase, name = bisect.WholeTrial, "the whole trial"
	}
	limit := l.bound(l.r, phase)
	if why, early = l.early(l.r, phase, limit); early {
		return why, true
	}
	return fmt.Sprintf("%s reached its limit of %v", name, limit), false
}

// stackWords says where a Python was that was killed or crashed.
func stackWords(output []byte) string {
	if where, ok := kernels.PythonStack(output); ok {
		return " at " + where
	}
	return ""
}

// marked notes what the times of a trial suffered from.
func marked(o *bisect.Outcome, n note, res proc.Result) {
	if n.throttled != "" {
		o.Marks = append(o.Marks, "throttled: "+n.throttled)
	}
	if n.shared != "" {
		o.Marks = append(o.Marks, "shared: "+n.shared)
	}
	if res.Stall > 0 {
		o.Marks = append(o.Marks, fmt.Sprintf("stalled: kbisect did not run for %.1f s", res.Stall.Seconds()))
	}
}

// overdue finds a phase that ended, but took longer than its limit: load and teardown are known
// only afterwards.
func (l *listener) overdue(o *bisect.Outcome) {
	for _, ph := range o.Phases {
		limit := l.limit(ph.Name)
		if limit > 0 && ph.Seconds > limit.Seconds() {
			o.Class, o.Phase = bisect.Timeout, ph.Name
			o.Why = fmt.Sprintf("%.3g s in %s, limit %v", ph.Seconds, ph.Name, limit)
			return
		}
	}
}

func ended(res proc.Result) string {
	if res.Signal != 0 {
		return "ended by " + signalName(res.Signal)
	}
	return fmt.Sprintf("exit %d", res.Exit)
}

// lastWords is the last line of the output, for a one-line reason.
func lastWords(tail []byte) string {
	tail = bytes.TrimSpace(tail)
	if i := bytes.LastIndexByte(tail, '\n'); i >= 0 {
		tail = tail[i+1:]
	}
	line := strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return -1
		}
		return r
	}, strings.ToValidUTF8(string(tail), ""))
	if line = strings.TrimSpace(line); line == "" {
		return ""
	}
	const most = 60
	if len(line) > most {
		line = strings.ToValidUTF8(line[:most], "") + "..."
	}
	return " (" + line + ")"
}
