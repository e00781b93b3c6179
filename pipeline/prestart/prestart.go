// Package prestart starts the interpreters of Python programs before their turn. What the processes of a search's ends
// have imported from outside of the repository is imported while earlier launches run, in stretches whose times do
// not count; the program itself begins at its turn, in a fresh process as ever. At the other end of a launch, a
// process that has sent its last line may tear down beside the next one, and stands still while times are taken. A [Pool]
// does both; a [Waiter] is one process that waits.
//
// A process is bound to a workspace, where it finds its caches, and the imported modules must be the ones that the
// candidate would import. Package trial decides which launches suit, and whether a failure is repeated without any
// of this: this package must not judge a launch.
package prestart

import (
	"context"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/renameio/v2"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/kernels"
	"github.com/kbisect/kbisect/pipeline/proc"
	"github.com/kbisect/kbisect/pipeline/workspace"
)

// Pool is the processes that wait. A nil Pool has no processes, and its methods for freezing and ending them do nothing.
// Close ends every process that Fill started and Take did not hand out.
type Pool struct {
	ctx context.Context
	dir string // for the Python module and its lists; the pool's own

	mu       sync.Mutex                    // of what follows
	imports  map[bisect.Purpose][]string   // the modules of either end, in the order of their import
	modules  int                           // of both ends together; 0: nothing is started early yet
	outside  map[string]bool               // top-level packages and modules that are imported
	same     map[string]bool               // paths in the ends with such names that the imports did not pick
	fits     map[bisect.Candidate]bool     // whether a candidate has no other such paths; see Means
	patience time.Duration                 // longest that importing the modules may take
	doubts   map[*workspace.Workspace]bool // workspaces in which nothing is started early any more; nil: all
	alike    map[bisect.Purpose]bool       // see Alike
	expected []Kind                        // see Expect
	last     map[bisect.Purpose]Kind       // the last launch for each purpose, see Between
	waiting  []*Waiter                     // oldest first
	started  int                           // processes so far, which numbers their files
	frozen   bool                          // those that start now are frozen at once
	since    time.Time                     // when they were frozen
	cleared  bool                          // see Clear
	closed   bool
	leaving  []*Leaver
	stuck    *time.Timer // of the one that stands still, see Halt
	late     atomic.Bool // it was let go because its time was over
	stays    bool        // no process tears down beside the next one any more
	awaits   bool        // none stands still any more
}

// Waiter is a process that was started early and waits for its turn. Whoever took it out of the pool runs or closes
// it.
type Waiter struct {
	w     *workspace.Workspace
	spec  proc.Spec
	held  *proc.Held
	list  string    // of the modules that it imports
	file  string    // made by the process when it has imported everything
	began time.Time // to import what it imports now, later by how long it was frozen since
	idle  bool      // see Between
}

// Each waiting process holds the memory of an interpreter and its modules.
const (
	few   = 2  // processes of a kind that wait in one workspace; up to four times as many if imports are slow and processors many
	most  = 40 // wait all together
	slow  = 5 * time.Second
	busy  = time.Second     // an import may take at least this long on a busy machine
	idle  = 5 * time.Second // an import between launches may take at least this long, as the machine may be busy
	many  = 8
	least = 200 // imported modules; with fewer, an import ends so soon that nothing is gained
)

// New prepares for early starts until ctx is done; dir is for files of its own.
func New(ctx context.Context, dir string) *Pool {
	return &Pool{
		ctx: ctx, dir: dir, imports: map[bisect.Purpose][]string{}, outside: map[string]bool{}, same: map[string]bool{},
		fits: map[bisect.Candidate]bool{}, doubts: map[*workspace.Workspace]bool{}, last: map[bisect.Purpose]Kind{}, alike: map[bisect.Purpose]bool{},
	}
}

// Wants reports whether a process of a request should run by [Pool.Learn]: the first one of each end.
func (p *Pool) Wants(r bisect.Request) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.imports[r.Purpose] == nil && r.Purpose.IsEnd()
}

// Knows reports whether it is known what both ends import or, while the bad end is launched for the first time,
// what the good end does.
func (p *Pool) Knows(r bisect.Request) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.modules > 0 && (len(p.imports) == 2 || r.Purpose == bisect.EndBad && r.Nth == 0)
}

// Learn runs a process of an end that reports what it has imported, when it sends its first line and at its end. The list
// counts if the process reaches its end, the good end's also well, and nothing is started early where it is too short to be
// worth it. Processes that wait import what they lack. The result and the error are those of the run. The process also links
// the bytecode of installed modules to where this and later ones look for it.
func (p *Pool) Learn(ctx context.Context, w *workspace.Workspace, end bisect.Purpose, spec proc.Spec) (proc.Result, error) {
	if err := kernels.WriteEarly(p.dir); err != nil {
		return w.Run(ctx, spec)
	}
	Between(ctx, p, Kind{W: w, Why: end, Spec: spec}, 0)
	told, list, began := spec, filepath.Join(p.dir, "imported-"+string(end)), time.Now()
	_ = os.Remove(list) // left by a process that did not end well
	told.Env = append(kernels.ProbeEnv(spec.Env, p.dir), kernels.LearnModules+"="+list, kernels.OutsideOf+"="+filepath.Dir(w.Folder))
	var early sync.WaitGroup
	var once sync.Once
	told.Watch = func(line string, at time.Duration) proc.Transition {
		once.Do(func() {
			early.Go(func() {
				if learnt(p, w, end, list, time.Since(began)) {
					go fill(p, func(Kind) int { return 1 }, true, awaited(p))
				}
			})
		})
		return spec.Watch(line, at)
	}
	res, err := w.Run(ctx, told)
	early.Wait()
	if err == nil && (res.Exit == 0 || end == bisect.EndBad) {
		learnt(p, w, end, list, res.Wall)
	} else if end == bisect.EndGood {
		p.mu.Lock()
		delete(p.imports, end)
		p.mu.Unlock()
	}
	return res, err
}

// learnt takes in the list that a process of an end has written in a workspace. It reports whether more is known now. took is
// how long the process has run.
func learnt(p *Pool, w *workspace.Workspace, end bisect.Purpose, list string, took time.Duration) bool {
	text, err := os.ReadFile(list)
	if err != nil { // it was killed, or does not write it so early
		return false
	}
	names := strings.Fields(string(text))
	if len(names) < least {
		names = []string{}
	}
	tops := map[string]bool{}
	for _, name := range names {
		top, _, _ := strings.Cut(name, ".")
		tops[top] = true
	}
	same := named(w, tops)
	p.mu.Lock()
	defer p.mu.Unlock()
	maps.Copy(p.outside, tops)
	for _, path := range same {
		p.same[path] = true
	}
	clear(p.fits)
	p.imports[end] = names
	p.patience = max(p.patience, took)
	announce(p)
	return p.modules > 0
}

// Expect has one process of each of some kinds started when the end that is launched next has told what it imports before its
// end.
func (p *Pool) Expect(kinds ...Kind) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.expected = kinds
}

// awaited are the kinds of Expect.
func awaited(p *Pool) []Kind {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.expected
}

// announce writes the lists of modules for the processes that start, and for those that wait. The caller holds mu.
func announce(p *Pool) {
	good, bad := p.imports[bisect.EndGood], p.imports[bisect.EndBad]
	if len(good) == 0 {
		return
	}
	known := map[string]bool{}
	for _, name := range good {
		known[name] = true
	}
	all := slices.Concat(good, slices.DeleteFunc(slices.Clone(bad), func(name string) bool { return known[name] }))
	if len(all) == p.modules {
		return
	}
	for _, x := range p.waiting {
		if x.list == list(p, "") {
			_ = os.Remove(x.file) // it makes it anew
			x.began = time.Now()
		}
	}
	// Lists are replaced as a whole, since processes may be reading them.
	write := func(why bisect.Purpose, names []string) error {
		return renameio.WriteFile(list(p, why), []byte(strings.Join(names, "\n")+"\n"), 0o666)
	}
	if p.modules == 0 && write(bisect.EndGood, good) != nil {
		return
	}
	if p.modules = len(all); write("", all) != nil {
		p.modules = 0
	}
}

// list is the file of the modules to import, a line each: for launches of the good end those of its own, for all others
// those of both ends.
func list(p *Pool, why bisect.Purpose) string {
	if why == bisect.EndGood {
		return filepath.Join(p.dir, "modules-good")
	}
	return filepath.Join(p.dir, "modules")
}

// named lists the files and folders of an export that are named like modules.
func named(w *workspace.Workspace, modules map[string]bool) (out []string) {
	_ = filepath.WalkDir(w.Dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && modules[strings.TrimSuffix(d.Name(), filepath.Ext(path))] {
			out = append(out, strings.TrimPrefix(path, w.Dir))
		}
		return nil
	})
	return out
}

// Means reports whether the imported modules are known and would be the same ones in a candidate: it has no file or
// folder of their names that the ends do not have. The candidate lies in w.
func (p *Pool) Means(w *workspace.Workspace, c bisect.Candidate) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.modules == 0 {
		return false
	}
	fits, known := p.fits[c]
	if !known {
		fits = !slices.ContainsFunc(named(w, p.outside), func(path string) bool { return !p.same[path] })
		p.fits[c] = fits
	}
	return fits
}

// Doubt notes that a launch failed only when it was started early: nothing is started early in its workspace from
// now on; for nil, in any.
func (p *Pool) Doubt(w *workspace.Workspace) {
	p.mu.Lock()
	p.doubts[w] = true
	p.mu.Unlock()
	here := func(x *Waiter) bool { return w == nil || x.w == w }
	for x := remove(p, here); x != nil; x = remove(p, here) {
		x.held.Close()
	}
}

// Drop ends all processes that wait. It does not wait for their end.
func (p *Pool) Drop() {
	if p == nil {
		return
	}
	drop(p, func(*Waiter) bool { return true })
}

// drop ends the processes that match, and does not wait for their end.
func drop(p *Pool, match func(*Waiter) bool) {
	for x := remove(p, match); x != nil; x = remove(p, match) {
		go x.held.Close()
	}
}

// own reports a variable that tells one launch from another. All others must be equal in a process that waits.
func own(v string) bool {
	return strings.HasPrefix(v, "KBISECT_COMMIT=") || strings.HasPrefix(v, "KBISECT_PURPOSE=")
}

// Take removes and returns a process that waits for such a launch, the first one that has imported everything, or nil.
// Those that still import are waited for as long as an import may take, since a process that started now would take
// as long. Processes that were started for another kind of launch are ended.
func (p *Pool) Take(ctx context.Context, w *workspace.Workspace, spec proc.Spec) *Waiter {
	here := func(x *Waiter) bool { return x.w == w }
	other := func(x *Waiter) bool { return here(x) && (!x.serves(spec) || x.held.Gone()) }
	for ; ctx.Err() == nil; time.Sleep(2 * time.Millisecond) {
		drop(p, other)
		ready := remove(p, func(x *Waiter) bool { return here(x) && x.ready() })
		if ready != nil || !soon(p, here) {
			return ready
		}
	}
	return nil
}

// Ready reports whether a process that waits in a workspace has imported everything.
func (p *Pool) Ready(w *workspace.Workspace) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.ContainsFunc(p.waiting, func(x *Waiter) bool { return x.w == w && x.ready() })
}

// ready reports that it has imported everything.
func (x *Waiter) ready() bool {
	_, err := os.Stat(x.file)
	return err == nil
}

// imports is the processor time that it took to import everything, in seconds, 0 if that is not known.
func (x *Waiter) imports() float64 {
	text, _ := os.ReadFile(x.file)
	seconds, _ := strconv.ParseFloat(strings.TrimSpace(string(text)), 64)
	return seconds
}

// soon reports that one of the processes that match may still get ready in time.
func soon(p *Pool, match func(*Waiter) bool) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.ContainsFunc(p.waiting, func(x *Waiter) bool {
		most := max(p.patience, busy)
		if x.idle { // others import at the same time, and all that is imported is used
			most = max(3*most, idle)
		}
		return match(x) && time.Since(x.began) <= most
	})
}

// serves reports whether a process was started for such launches.
func (x *Waiter) serves(spec proc.Spec) bool {
	common := func(env []string) []string { return slices.DeleteFunc(slices.Clone(env), own) }
	return x.spec.Dir == spec.Dir && slices.Equal(x.spec.Argv, spec.Argv) && slices.Equal(common(x.spec.Env), common(spec.Env)) && (x.spec.OnOutput == nil) == (spec.OnOutput == nil)
}

// Run lets the program begin and returns as [proc.Run] does; ok is false if the process ended before its turn, and
// then the launch has to be made in a new one.
func (x *Waiter) Run(ctx context.Context, spec proc.Spec) (res proc.Result, ok bool, err error) {
	return x.held.Run(ctx, spec, kernels.EarlyWord(x.spec.Env, spec.Env))
}

// remove takes the oldest process that matches out of the pool; nil if there is none.
func remove(p *Pool, match func(*Waiter) bool) *Waiter {
	p.mu.Lock()
	defer p.mu.Unlock()
	i := slices.IndexFunc(p.waiting, match)
	if i < 0 {
		return nil
	}
	x := p.waiting[i]
	p.waiting = slices.Delete(p.waiting, i, i+1)
	return x
}

// Kind is a kind of launch to come: where it will be made, for what, and how its process is started.
type Kind struct {
	W    *workspace.Workspace
	Why  bisect.Purpose
	Spec proc.Spec
	Used bool // a process of its kind was used now: more of the search are likely to be
	idle bool // nothing else runs until its first process is ready, see Between
}

// Fill starts processes of some kinds, by turns, as long as a tenth of the memory and 1 GiB stay free; so many import at a
// time that one processor is left, for which it waits, if told to, no longer than an import may take. It gives up silently:
// nothing rests on it.
func (p *Pool) Fill(wait bool, kinds ...Kind) {
	p.mu.Lock()
	laggard := p.patience > slow && runtime.NumCPU() >= many // imports take longer than several launches
	p.mu.Unlock()
	each := func(k Kind) int {
		switch {
		case (laggard || k.idle) && k.Used && k.Why == bisect.Searching:
			return 4 * few
		case laggard && k.Why != bisect.ConfirmParent: // of which there are several workspaces
			return 2 * few
		}
		return few
	}
	fill(p, each, wait, kinds)
}

// Between is Take for a launch beside which nothing may import, so that processes import only between launches, many at a time:
// its own kind, and that of the other side. longest is what the program times, in seconds: it may cover what is imported, unless that
// takes far longer. Until [Alike] says that an early start does not show in what either end times, only the ends get one. A kind that
// is not used now is only noted.
func Between(ctx context.Context, p *Pool, k Kind, longest float64) *Waiter {
	k.idle = true
	p.mu.Lock()
	kinds := []Kind{k}
	if other, ok := p.last[k.Why.Other()]; ok { // launched in turn with it
		kinds = append(kinds, other)
	}
	p.last[k.Why] = Kind{W: k.W, Why: k.Why, Spec: k.Spec, idle: true}
	may := k.Used && !p.doubts[nil] && len(p.imports) == 2 && (k.Why.IsEnd() || len(p.alike) == 2)
	p.mu.Unlock()
	if !may {
		return nil
	}
	if !p.Ready(k.W) {
		p.Fill(false, kinds...)
	}
	x := p.Take(ctx, k.W, k.Spec)
	if x != nil && x.imports() < 2*longest {
		x.held.Close()
		p.Doubt(nil)
		return nil
	}
	return x
}

// Alike says that an end times the same whether or not it is started early, see [Between].
func Alike(p *Pool, end bisect.Purpose) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.alike[end] = true
}

// Clear ends all processes that wait, and waits for their end; none starts until [Allow]. It reports whether there were any.
func Clear(p *Pool) (any bool) {
	if p == nil {
		return false
	}
	p.mu.Lock()
	p.cleared = true
	p.mu.Unlock()
	var ends sync.WaitGroup
	all := func(*Waiter) bool { return true }
	for x := remove(p, all); x != nil; x = remove(p, all) {
		any = true
		ends.Go(x.held.Close)
	}
	ends.Wait()
	return any
}

// Lacks reports that the bad end has imported less than the good end, as where it finds locked what another process holds.
func Lacks(p *Pool) bool {
	if p == nil {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	bad := map[string]bool{}
	for _, name := range p.imports[bisect.EndBad] {
		bad[name] = true
	}
	return slices.ContainsFunc(p.imports[bisect.EndGood], func(name string) bool { return !bad[name] })
}

// Allow lets processes start again after Clear.
func Allow(p *Pool) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cleared = false
}

// fill starts processes until there are as many of each kind as each says.
func fill(p *Pool, each func(Kind) int, wait bool, kinds []Kind) {
	p.mu.Lock()
	end := time.Now().Add(p.patience)
	p.mu.Unlock()
	for n := 1; n <= 4*few; n++ {
		for _, k := range kinds {
			for n <= each(k) && start(p, k, n) {
				if !wait || time.Now().After(end) || p.ctx.Err() != nil {
					return
				}
				time.Sleep(50 * time.Millisecond)
			}
		}
	}
}

// start starts a process of a kind, if it can, unless n of them wait. busy says that only a processor is missing.
func start(p *Pool, k Kind, n int) (busy bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.waiting = slices.DeleteFunc(p.waiting, func(x *Waiter) bool { return x.held.Gone() })
	here, importing := 0, 0
	for _, x := range p.waiting {
		if x.w == k.W && x.serves(k.Spec) {
			here++
		}
	}
	if here >= n || p.closed || p.cleared || p.ctx.Err() != nil || p.doubts[k.W] || p.doubts[nil] {
		return false
	}
	for _, x := range p.waiting {
		if !x.ready() {
			importing++
		}
	}
	processors := runtime.NumCPU()
	if !k.idle {
		processors = max(1, processors-1)
	}
	if importing >= processors && !(k.idle && k.Used && here == 0) {
		return true
	}
	if free, all := proc.Available(); free < all/10+1<<30 {
		return false
	}
	if len(p.waiting) >= most {
		oldest := p.waiting[0]
		p.waiting = slices.Delete(p.waiting, 0, 1)
		go oldest.held.Close()
	}
	ahead := k.Spec
	ahead.Watch, ahead.Closed = nil, nil
	if k.Spec.OnOutput != nil {
		ahead.OnOutput = func(int, string, time.Duration) {}
	}
	list, ready := list(p, k.Why), filepath.Join(p.dir, fmt.Sprint("ready-", p.started))
	ahead.Env = append(kernels.ProbeEnv(k.Spec.Env, p.dir), kernels.EarlyModules+"="+list, kernels.EarlyReady+"="+ready)
	held, err := k.W.Start(p.ctx, ahead, p.started)
	if err != nil {
		return false
	}
	p.started++
	if p.frozen {
		held.Freeze(true)
	}
	p.waiting = append(p.waiting, &Waiter{k.W, k.Spec, held, list, ready, time.Now(), k.idle})
	return false
}

// Freeze stops all that wait while times are taken, or lets them go on.
func (p *Pool) Freeze(on bool) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if on && !p.frozen {
		p.since = time.Now()
	}
	for _, x := range p.waiting {
		if !on && p.frozen {
			x.began = time.Now().Add(-max(p.since.Sub(x.began), 0))
		}
		x.held.Freeze(on)
	}
	p.frozen = on
}

// Close ends all processes that wait or still tear down. How they end no longer matters.
func (p *Pool) Close() {
	if p == nil {
		return
	}
	p.mu.Lock()
	var ends sync.WaitGroup // side by side, as each takes a while
	for _, x := range p.waiting {
		ends.Go(x.held.Close)
	}
	p.waiting, p.closed = nil, true
	for _, x := range p.leaving {
		x.end()
	}
	p.mu.Unlock()
	ends.Wait()
	p.Await(nil)
}
