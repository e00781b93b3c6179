package pipeline

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/kernels/harness"
	"github.com/kbisect/kbisect/kernels/protocol"
	"github.com/kbisect/kbisect/pipeline/gpu"
	"github.com/kbisect/kbisect/pipeline/proc"
	"github.com/kbisect/kbisect/pipeline/trial"
	"github.com/kbisect/kbisect/pipeline/workspace"
)

// machine separates the machine's faults from the candidate's. What may be either is tried with a known-good program
// where devices are watched: if that fails too, no candidate can be judged.
type machine struct {
	cookie   string                    // marks the processes of known-good programs, see [proc.Spec]
	env      []string                  // of known-good programs
	devices  []*gpu.Watch              // that are watched
	greeting *greeting                 // nil until a known-good program is looked for
	hello    *hello                    // a known-good program; nil if there is none
	suspects map[bisect.Candidate]bool // candidates that are blamed the next time, see suspect
	habits   map[string]bool           // what candidates of this project remove themselves
}

// suspect notes that a step of a candidate looked as if another process, or a passing trouble of the machine, had ended
// it. The first time the machine is blamed and the trial is made again; the second time the candidate is.
func (m *machine) suspect(c bisect.Candidate, yes bool) {
	if yes {
		m.suspects[c] = true
	}
}

// removed is why the machine may be to blame for a trial after which something is missing in its workspace, or "".
// Somebody who clears the caches removes a file once; what is missing after another try too, the candidates of this
// project remove themselves, and it is never asked about again.
func (m *machine) removed(c bisect.Candidate, names []string) string {
	i := slices.IndexFunc(names, func(name string) bool { return !m.habits[name] })
	if i >= 0 && !m.suspects[c] {
		m.suspect(c, true)
		return names[i] + " was removed while it ran"
	}
	for _, name := range names {
		m.habits[name] = true
	}
	return ""
}

// greeting makes and runs the known-good program for the first time, beside the first export and build.
type greeting struct {
	cancel  context.CancelFunc
	over    chan struct{} // closed when the rest is known
	hello   *hello        // nil if no known-good program can be made here
	warning string        // how it fails; "" if it works
	err     error
}

// greet begins the greeting, once. It outlives the trial beside which it begins, as that may end without a launch.
func (m *machine) greet(ctx context.Context, root *workspace.Root) {
	if m.greeting != nil {
		return
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	g := &greeting{cancel: cancel, over: make(chan struct{})}
	m.greeting = g
	go func() {
		defer close(g.over)
		defer cancel()
		if g.hello, g.err = newHello(ctx, m, filepath.Join(root.Dir, "hello")); g.err != nil {
			if err := root.Check(); err != nil {
				g.err = err
			}
			return
		}
		if g.warning, g.err = g.hello.fails(ctx); g.warning != "" {
			g.warning += "\nhint: kbisect doctor"
		}
	}()
}

// greeted waits for the end of the greeting, since nothing may run beside a launch whose times count, and no failure is
// judged before the machine is known to work. A known-good program that fails is only a warning, which is returned
// once: the project may not need the device.
func (m *machine) greeted(ctx context.Context) (warning string, err error) {
	if m.greeting == nil || m.hello != nil {
		return "", nil
	}
	select {
	case <-m.greeting.over:
	case <-ctx.Done():
		return "", ctx.Err()
	}
	warning, m.greeting.warning = m.greeting.warning, ""
	m.hello, err = m.greeting.hello, m.greeting.err
	return warning, err
}

// before reads the devices before a launch. The known-good program may still be on them when the first one begins: it is awaited,
// or it would be taken for somebody else's.
func (m *machine) before(ctx context.Context) reading {
	over := m.greeting == nil
	if !over {
		select {
		case <-m.greeting.over:
			over = true
		default:
		}
	}
	x := readDevices(m.devices)
	if over || !slices.ContainsFunc(x.before, func(r gpu.Reading) bool { return len(r.Processes) > 0 }) {
		return x
	}
	select {
	case <-m.greeting.over:
	case <-ctx.Done():
	}
	return readDevices(m.devices)
}

// close ends a greeting that is under way.
func (m *machine) close() {
	if m.greeting != nil {
		m.greeting.cancel()
		<-m.greeting.over
	}
}

// fault asks whether the machine rather than the candidate is to blame for how a launch ended, and says why, or "".
// What the kernel and the driver report comes first and decides. Words in the output only raise suspicion: then a
// known-good program decides. A device that was never there is an error, since another try would not find one.
func (m *machine) fault(ctx context.Context, c bisect.Candidate, o bisect.Outcome, res proc.Result, d deviceState) (string, error) {
	switch {
	case d.fault != "":
		return d.fault, nil
	case trial.Starved(res) != "" && o.Class != bisect.OK:
		return trial.Starved(res), nil
	case res.Stall > 0 && o.Class == bisect.Timeout && !o.Whole && !m.suspects[c]:
		m.suspect(c, true) // it may have stopped kbisect
		return fmt.Sprintf("kbisect itself did not run for %.1f s of the trial, so that the limits were not kept", res.Stall.Seconds()), nil
	case o.Class == bisect.OK || o.Class == bisect.Skip || o.Class == bisect.Infra:
		return "", nil
	}
	words, accused := protocol.FindFault(res.Tail)
	if accused && words.Kind == protocol.Passing && !m.suspects[c] {
		m.suspect(c, true)
		return "the trial printed: " + words.Text, nil
	}
	if accused && words.Kind == protocol.NoDevice && len(m.devices) == 0 {
		return "", &bisect.InfraError{What: "testing " + c.Brief(), Err: fmt.Errorf("there is no device here for the trial, which printed: %s\nhint: kbisect doctor; what a build alone reports, such as a static metric, needs none: leave out [run]", words.Text)}
	}
	// A program on a device that hangs prints nothing, so one that was killed is a reason to ask as well.
	killed := res.Timeout != nil || res.Signal != 0
	if !accused && !(killed && len(m.devices) > 0) {
		return "", nil
	}
	return m.ask(ctx, words, accused, d)
}

// ask runs the known-good program after a failure that may be the machine's, and says why it is, or "". Without words
// in the output, only a program that has worked here before counts: one that never worked would excuse every failure.
func (m *machine) ask(ctx context.Context, words protocol.Fault, accused bool, d deviceState) (string, error) {
	worked := m.hello != nil && m.hello.worked
	why, err := m.hello.fails(ctx)
	switch {
	case err != nil:
		return "", err
	case why != "" && accused:
		return fmt.Sprintf("%s; the trial printed: %s", why, words.Text), nil
	case why != "" && worked:
		return why, nil
	case accused && words.Kind == protocol.DeviceMemory && d.shared != "":
		return fmt.Sprintf("%s, and %s", words.Text, d.shared), nil
	}
	return "", nil
}

// Limits on the known-good program, far above what it needs.
const (
	helloCompile = 2 * time.Minute
	helloRun     = 30 * time.Second // importing torch takes 10 s when nothing of it is in memory
)

// hello is a known-good program on this machine, compiled once. It runs before the first trial and
// after every trial whose end might be the machine's doing.
type hello struct {
	harness.Hello
	dir     string
	env     []string
	cookie  string
	devices []*gpu.Watch
	worked  bool // it has been seen to work here
}

// newHello takes the best known-good program that this machine can compile. It is nil without an error if there is none.
func newHello(ctx context.Context, m *machine, dir string) (*hello, error) {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return nil, &bisect.InfraError{What: "making a known-good program", Err: err}
	}
	// Compilers that are killed leave files in the folder for temporary ones: here they are removed with the rest.
	env := append(slices.Clone(m.env), "TMPDIR="+dir, "TMP="+dir, "TEMP="+dir)
	for _, k := range harness.Hellos() {
		h := &hello{Hello: k, dir: dir, env: env, cookie: m.cookie, devices: m.devices}
		ok, err := h.compile(ctx)
		if ok || err != nil {
			return h, err
		}
	}
	return nil, nil
}

// compile reports whether the tool of h is there and works. A program for Python has nothing to compile, and needs a
// torch that can be imported.
func (h *hello) compile(ctx context.Context) (bool, error) {
	argv := h.Compile
	if len(argv) == 0 {
		argv = []string{h.Hello.Run[0], "-c", "import torch"}
	}
	if _, err := exec.LookPath(argv[0]); err != nil {
		return false, nil
	}
	if err := os.WriteFile(filepath.Join(h.dir, h.File), h.Text, 0o666); err != nil {
		return false, &bisect.InfraError{What: "making a known-good program", Err: err}
	}
	res, err := h.run(ctx, argv, helloCompile)
	return err == nil && res.Exit == 0, err
}

// run runs a step of the known-good program. That it cannot be run at all is the machine's fault; how it ends is
// for the caller to judge.
func (h *hello) run(ctx context.Context, argv []string, limit time.Duration) (proc.Result, error) {
	res, err := proc.Run(ctx, proc.Spec{Argv: argv, Dir: h.dir, Env: h.env, Limit: limit, Cookie: h.cookie})
	switch {
	case err != nil:
		err = &bisect.InfraError{What: "running a known-good program in " + h.dir, Err: err}
	case res.Canceled:
		err = context.Cause(ctx)
	}
	return res, err
}

// fails is how the known-good program fails; "" if it works, or if there is none.
func (h *hello) fails(ctx context.Context) (why string, err error) {
	if h == nil {
		return "", nil
	}
	before := readDevices(h.devices)
	res, err := h.run(ctx, h.Hello.Run, helloRun)
	over, cancel := context.WithTimeout(ctx, clearBound)
	defer cancel()
	for i, d := range h.devices { // else the next launch would take it for somebody else's process
		d.Clear(over, before.before[i].Processes, clearBound)
	}
	printed := strings.TrimSpace(string(res.Tail))
	switch {
	case err != nil:
		return "", err
	case res.Timeout != nil:
		return fmt.Sprintf("a known-good program (%s) hangs", h.Name), nil
	case res.Exit != 0 || printed != harness.HelloWord:
		return fmt.Sprintf("a known-good program (%s) fails: %s", h.Name, trial.Describe(res)), nil
	}
	h.worked = true
	return "", nil
}

// concluded adds to the outcome of a launch what the devices went through, and asks whose fault it was. A launch that
// is the machine's fault has class Infra, with the reason in Why.
func (p *Pipeline) concluded(ctx context.Context, w *workspace.Workspace, r bisect.Request, run trial.Launched, d deviceState) (bisect.Outcome, error) {
	o := run.Outcome
	o.Devices = d.notes
	if o.Class != bisect.OK { // a failed launch has no times to compare
		o.Unfit = ""
	}
	o.Marks = append(o.Marks, marks(d, run.Stall)...)
	if o.Unfit == "" && !r.Timing && len(o.Marks) > 0 { // where times matter, Sample makes it again instead
		o.Unfit = o.Marks[0].String()
	}
	if o.Class != bisect.OK && w.Caches.Warmed != r.Candidate && w.Caches.Filled(trial.Whole(p.Config.Recipe, o), false) {
		o.Caches = string(Cold)
	}
	if run.Killed { // it may have left a lock file
		if err := w.ClearCaches(); err != nil {
			return o, err
		}
	}
	if o.Class != bisect.OK && o.Class != bisect.Skip {
		if err := greeted(ctx, p); err != nil {
			return o, err
		}
	}
	if o.Early && r.Hurry == bisect.SlowTrial && d.fault == "" { // it was only slow, and the proof launches it in full
		return trial.Excuse(o, run.Missing), nil
	}
	p.Config.doing("known-good program")
	fault, err := p.machine.fault(ctx, r.Candidate, o, run.Last, d)
	if fault != "" {
		o.Class, o.Why = bisect.Infra, fault
	}
	return trial.Excuse(o, run.Missing), err
}

// marks are what disturbed the times of a launch.
func marks(d deviceState, stall time.Duration) (out []bisect.Mark) {
	if d.throttled != "" {
		out = append(out, bisect.Mark{Kind: bisect.Throttled, Text: d.throttled})
	}
	if d.shared != "" {
		out = append(out, bisect.Mark{Kind: bisect.Shared, Text: d.shared})
	}
	if stall > 0 {
		out = append(out, bisect.Mark{Kind: bisect.Stalled, Text: fmt.Sprintf("kbisect did not run for %.1f s", stall.Seconds())})
	}
	return out
}
