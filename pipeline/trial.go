package pipeline

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/kernels"
	"github.com/kbisect/kbisect/kernels/protocol"
	"github.com/kbisect/kbisect/pipeline/proc"
)

// protocolVariable names the descriptor on which a program under test speaks.
const protocolVariable = "KBISECT_FD"

// trial makes one trial of what the slot holds. One that is for its times finds the caches as a
// first process of the same candidate left them, unless the user wants them judged empty.
func (s *slot) trial(ctx context.Context, r bisect.Request) (bisect.Outcome, error) {
	if s.onlyBuilds(r) {
		return bisect.Outcome{Class: bisect.OK}, nil
	}
	warm := s.Caches == Warm || s.Caches == "" && r.Timing
	if warm && s.caches.warmed == r.Candidate {
		o, err := s.launch(ctx, r)
		if err == nil && s.filled(false) {
			o.Caches = string(Warm)
		}
		return o, err
	}
	if err := s.caches.clear(); err != nil {
		return bisect.Outcome{}, &bisect.InfraError{What: "clearing the caches of " + s.name, Err: err}
	}
	began := !holdsFiles(s.caches.python)
	first, err := s.launch(ctx, r)
	if err != nil || first.Class != bisect.OK {
		return first, err
	}
	s.caches.warmed = r.Candidate
	if !s.filled(began) {
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

// filled reports that launches have left something in the caches that later ones are quicker for. Python's
// bytecode speeds up imports alone; first says that there was none at all before.
func (s *slot) filled(first bool) bool {
	return holdsFiles(s.caches.dir) || s.WholeTimed && s.caches.compiled(first)
}

// course is how the processes of one trial went so far.
type course struct {
	last   proc.Result
	spent  time.Duration // of the limit of the whole trial
	stall  time.Duration
	killed bool
}

// launch starts the processes of the plan in the slot, one after the other, until one of them does not
// end well.
func (s *slot) launch(ctx context.Context, r bisect.Request) (bisect.Outcome, error) {
	if o, err := s.write(r); err != nil || o.Class != "" {
		return o, err
	}
	if err := s.clearResults(); err != nil {
		return bisect.Outcome{}, err
	}
	before := s.watch()
	defer s.ahead.freeze(false)
	var sum bisect.Outcome
	var c course
	for _, stage := range s.stages(r.Candidate) {
		l := s.listen(r, stage, c.spent)
		res, o, err := l.process(ctx)
		if err != nil || l.lost {
			return o, err
		}
		c.last, c.spent, c.stall = res, c.spent+l.took(res), c.stall+res.Stall
		c.killed = c.killed || res.Timeout != nil || res.Signal != 0
		if stage.Optional && !o.Whole && o.Class != bisect.Infra {
			if o.Class == bisect.Timeout {
				o.Warnings = append(o.Warnings, o.Why+", in stage "+stage.Name+", which may fail: what follows is launched all the same")
			}
			o.Class, o.Phase, o.Why, o.Early, o.Supposed = bisect.OK, "", "", false, false
		}
		if sum = following(sum, o); o.Class != bisect.OK {
			break
		}
	}
	s.results(&sum)
	return s.concluded(ctx, r, sum, c, s.since(ctx, before))
}

// following is the outcome of two processes of one trial, of which b came later.
func following(a, b bisect.Outcome) bisect.Outcome {
	times := slices.Clone(a.Phases)
	for _, p := range b.Phases {
		if i := slices.IndexFunc(times, func(t bisect.PhaseTime) bool { return t.Name == p.Name }); i >= 0 {
			times[i].Seconds += p.Seconds
		} else {
			times = append(times, p)
		}
	}
	b.Phases, b.Series, b.Warnings = times, slices.Concat(a.Series, b.Series), slices.Concat(a.Warnings, b.Warnings)
	b.Wall, b.Memory, b.Speaks = a.Wall+b.Wall, max(a.Memory, b.Memory), a.Speaks || b.Speaks
	b.Unfit = cmp.Or(a.Unfit, b.Unfit)
	return b
}

// concluded adds to the outcome of a trial what the devices went through, and asks whose fault it was.
func (s *slot) concluded(ctx context.Context, r bisect.Request, o bisect.Outcome, c course, n note) (bisect.Outcome, error) {
	o.Devices = n.notes
	if o.Class != bisect.OK {
		o.Unfit = ""
	}
	marked(&o, n, c.stall)
	if o.Unfit == "" && !r.Timing && len(o.Marks) > 0 {
		o.Unfit = o.Marks[0]
	}
	if o.Class != bisect.OK && s.caches.warmed != r.Candidate && s.filled(false) {
		o.Caches = string(Cold)
	}
	if c.killed { // it may have left a lock file
		if err := s.caches.clear(); err != nil {
			return o, &bisect.InfraError{What: "clearing the caches of " + s.name, Err: err}
		}
	}
	fault, err := s.machineFault(ctx, r.Candidate, o, c.last, n)
	if fault != "" {
		o.Class, o.Why = bisect.Infra, fault
	}
	return o, err
}

// process runs one process of a trial.
func (l *listener) process(ctx context.Context) (res proc.Result, o bisect.Outcome, err error) {
	s, r := l.slot, l.r
	env, err := s.runEnv(r)
	if err != nil {
		return res, o, err
	}
	spec := proc.Spec{
		Argv: s.argv(l.stage.Run), Dir: s.workDir(), Env: append(env, l.stage.Env...), Output: s.logFile(r, l.logName()), Tail: tailMax,
		OutputMax: s.outputMax(), Limit: l.whole(), Phase: l.said.Phase(),
		Protocol: protocolVariable, Watch: l.line, Closed: l.closed,
	}
	if l.stage.Speaks != "" {
		spec.Aliases, spec.WaitOutput = []string{l.stage.Speaks}, !l.stage.Optional // as KernelBot's runner does
	}
	spec.PhaseLimit = l.phaseBound(spec.Phase)
	if len(s.Patterns) > 0 {
		spec.OnOutput = l.output
	}
	withProbe := s.probes(r, spec.Argv)
	if withProbe {
		dir := filepath.Join(s.Dir, "probe")
		if err := kernels.WriteProbe(dir); err != nil {
			return res, o, &bisect.InfraError{What: "writing the probe for Python", Err: err}
		}
		spec.Env = kernels.ProbeEnv(spec.Env, dir)
	}
	s.activity(r, spec.Phase, l.limitOr(spec.PhaseLimit))
	if r.Timing && (l.said.Base != "load" || s.WholeTimed) {
		s.ahead.freeze(true)
	}
	res, err = s.run(ctx, spec)
	if errors.Is(err, syscall.ENOEXEC) { // a script without a #! line is the shell's, as for a shell
		spec.Argv = append([]string{"/bin/sh"}, spec.Argv...)
		res, err = s.run(ctx, spec)
	}
	if err != nil {
		l.lost = true
		o, err = s.cannotStart(r, spec.Argv[0], err)
		return res, o, err
	}
	l.ended(res)
	o = l.outcome(res)
	o.Log, o.Memory = spec.Output, res.MemoryPeak
	if withProbe && s.Probe != ProbeOn {
		o.Unfit = "the probe was with it"
	}
	return res, o, nil
}

// tailMax is how much of the output is looked at for words about the machine and for stacks;
// tailKept how much of it is kept with the trial.
const (
	tailMax  = 64 << 10
	tailKept = 4 << 10
)

// stages are the processes of a trial of a candidate.
func (s *slot) stages(c bisect.Candidate) []kernels.Stage {
	set, _ := s.settings(c) // a wrong one has been told
	out := slices.Clone(s.Plan.Stages)
	if len(out) == 0 {
		out = []kernels.Stage{{Run: s.Plan.Run}}
	}
	for i := range out {
		if out[i].Speaks == "" { // the arguments of KernelBot's programs are its own
			out[i].Run = slices.Concat(out[i].Run, set.Args())
		}
	}
	return out
}

// argv is the run command. A script that the candidate does not hold, but the user's work tree
// does, is taken from there, as `git bisect run ./untracked-script` would: the program itself, or
// the first argument of an interpreter. Other arguments are the candidate's business.
func (s *slot) argv(run []string) []string {
	argv := slices.Clone(run)
	i, name := kernels.Script(run)
	if s.WorkTree == "" || name == "" || exists(filepath.Join(s.workDir(), name)) {
		return argv
	}
	if own := filepath.Join(s.WorkTree, filepath.FromSlash(s.Plan.Dir), name); exists(own) {
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
	if l.pop != nil {
		o.Warnings = append(o.Warnings, l.pop.Warnings()...)
	}
	for _, x := range slices.Concat(said.Series(), l.popSeries(), l.series) {
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
		o.Whole = res.Timeout.Whole && !l.ownLimit
		fail(bisect.Timeout, "")
		if o.Why, o.Early = l.timeoutWords(phase, o.Whole); res.Timeout.Whole && l.ownLimit {
			o.Why = l.stageWords()
		}
		if c := said.Case(); c != "" && phase != teardown {
			o.Why += " in case " + c
		}
		if o.Why += stackWords(res.Tail); res.Held {
			o.Why += "; it had ended, but what it left running keeps its output open"
		}
		if o.Supposed = phase == teardown && said.Supposed(); o.Supposed {
			o.Early = o.Early || l.r.Purpose == bisect.Searching
		}
	case res.KilledParent:
		fail(bisect.Crash, "it kills the process that supervises it")
	case res.Signal != 0:
		fail(bisect.Crash, ended(res)+stackWords(res.Tail))
	case l.pop != nil:
		l.popOutcome(&o, res)
	case l.buildFailed(res) != "":
		fail(bisect.BuildFailed, l.buildFailed(res))
	case res.Exit >= 128:
		fail(bisect.Crash, ended(res)+cmp.Or(stackWords(res.Tail), lastWords(res.Tail)))
	case words.IsSkip:
		fail(bisect.Skip, words.Skip)
	case res.Exit == 125:
		fail(bisect.Skip, "the command asked to skip (exit 125)")
	case words.IsWrong:
		fail(bisect.Wrong, words.Wrong)
		o.Phase = said.Failed()
	case res.Exit != 0:
		fail(bisect.Wrong, ended(res)+lastWords(res.Tail))
	default:
		l.overdue(&o)
	}
	if o.Class == bisect.Wrong || o.Class == bisect.Crash {
		o.Error = protocol.PythonError(res.Tail)
	}
	if o.Class == bisect.OK && l.alone {
		o.Shape = asJSON(said.Shape())
	}
	if o.Class == bisect.OK && res.Leftover > 0 && l.pop == nil { // Python's pools, in KernelBot's evaluations, leave one behind
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
	limit := l.phaseBound(phase)
	if why, early = l.early(l.r, phase, limit); early {
		return why, true
	}
	return fmt.Sprintf("%s reached its limit of %v", name, limit), false
}

// stackWords says where a Python was that was killed or crashed.
func stackWords(output []byte) string {
	if where, ok := protocol.PythonStack(output); ok {
		return " at " + where
	}
	return ""
}

// marked notes what the times of a trial suffered from.
func marked(o *bisect.Outcome, n note, stall time.Duration) {
	if n.throttled != "" {
		o.Marks = append(o.Marks, "throttled: "+n.throttled)
	}
	if n.shared != "" {
		o.Marks = append(o.Marks, "shared: "+n.shared)
	}
	if stall > 0 {
		o.Marks = append(o.Marks, fmt.Sprintf("stalled: kbisect did not run for %.1f s", stall.Seconds()))
	}
}

// overdue finds a phase that ended, but took longer than its limit: load and teardown are known
// only afterwards.
func (l *listener) overdue(o *bisect.Outcome) {
	for _, ph := range o.Phases {
		limit := l.withUntold(ph.Name, l.limit(ph.Name))
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

// lastWords is the last line of the output, or the exception that Python ended with, for a one-line reason.
func lastWords(tail []byte) string {
	if line := protocol.PythonWords(tail); line != nil {
		return inBrackets(line, 80)
	}
	tail = bytes.TrimSpace(tail)
	return inBrackets(tail[bytes.LastIndexByte(tail, '\n')+1:], 80)
}

// inBrackets is one line of an output, cut after a number of bytes, or "".
func inBrackets(text []byte, most int) string {
	line := strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return -1
		}
		return r
	}, strings.ToValidUTF8(string(text), ""))
	if line = strings.TrimSpace(line); line == "" {
		return ""
	}
	if len(line) > most {
		line = strings.ToValidUTF8(line[:most], "") + "..."
	}
	return " (" + line + ")"
}
