package executor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
)

// commands drives any other scheduler through three commands of the user's. submit prints the id of a job as its
// last line; state prints one word for it: pending, running, done, failed or lost; cancel ends it. Their arguments
// may contain {spec}, {program}, {output}, {name} and {seconds} in submit, and {id} in the other two. Where nothing
// is shared, {spec} is the archive with all that the job needs, to be given to kbisect worker - on its standard
// input, and what that prints has to end up in {output}.
type commands struct {
	settings Settings

	mu   sync.Mutex
	live map[string]bool // ids of jobs that were submitted and have not ended
}

// Submit implements Executor. A command that fails is tried once more, as only what it calls knows why it failed;
// if it fails again with an exit status, that is a refusal. One that could not be started, was killed or did not
// answer is always tried again.
func (x *commands) Submit(ctx context.Context, j Job) (string, error) {
	r := strings.NewReplacer("{spec}", cmp.Or(j.Inputs, j.Spec), "{program}", j.Program, "{output}", j.Output, "{name}", j.Session+"-"+j.Name, "{seconds}", strconv.Itoa(int(j.Fence.Seconds())))
	out, err := tool(ctx, "", filled(x.settings.Submit, r)...)
	var failed *toolError
	if errors.As(err, &failed) && (!j.Again || failed.code < 0) {
		return "", fmt.Errorf("submit: %w", err)
	}
	if err != nil {
		return "", &RefusedError{fmt.Sprintf("[executor] submit: %v", err)}
	}
	lines := strings.Split(strings.TrimSpace(out), "\n")
	id := strings.TrimSpace(lines[len(lines)-1])
	if id == "" {
		return "", &RefusedError{"[executor] submit printed no id\nhint: its last line names the job for state and cancel, which get it as {id}"}
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.live[id] = true
	return id, nil
}

// States implements Executor with one command for each job. A word other than the five is an error and not a state,
// so that a mistake in the user's script shows at once instead of as a job that never ends.
func (x *commands) States(ctx context.Context, ids []string) (map[string]Report, error) {
	all := map[string]Report{}
	for _, id := range ids {
		if pid, err := strconv.Atoi(id); err == nil && pid > 0 { // kbisect is a subreaper: an orphaned job is its child, and a zombie until it is waited for
			_, _ = syscall.Wait4(pid, nil, syscall.WNOHANG, nil)
		}
		out, err := tool(ctx, "", filled(x.settings.State, strings.NewReplacer("{id}", id))...)
		if err != nil {
			return nil, fmt.Errorf("state: %w", err)
		}
		word := strings.TrimSpace(out)
		state := State(word)
		if !slices.Contains([]State{Pending, Running, Done, Failed, Lost}, state) {
			return nil, fmt.Errorf("[executor] state printed %q; expected pending, running, done, failed or lost", word)
		}
		all[id] = Report{State: state, Words: word}
		if state.Ended() {
			x.forget(id)
		}
	}
	return all, nil
}

// forget notes that a job has ended, so that Cancel leaves it alone.
func (x *commands) forget(id string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	delete(x.live, id)
}

// Cancel implements Executor. The session's name means nothing to the user's commands, so that without ids the jobs
// that this process submitted are cancelled. All are tried; the first error is returned.
func (x *commands) Cancel(ctx context.Context, _ string, ids ...string) (first error) {
	x.mu.Lock()
	if ids == nil {
		ids = slices.Sorted(maps.Keys(x.live))
	}
	x.mu.Unlock()
	for _, id := range ids {
		if _, err := tool(ctx, "", filled(x.settings.Cancel, strings.NewReplacer("{id}", id))...); err != nil && first == nil {
			first = fmt.Errorf("cancel: %w", err)
		}
		x.forget(id)
	}
	return first
}

// Version implements Executor. It names the commands and runs none of them.
func (x *commands) Version(context.Context) (string, error) {
	return "commands " + x.settings.Submit[0] + ", " + x.settings.State[0] + ", " + x.settings.Cancel[0], nil
}

// filled is a command with its templates replaced in every argument. No shell is involved, so that nothing needs
// quoting.
func filled(argv []string, r *strings.Replacer) (out []string) {
	for _, word := range argv {
		out = append(out, r.Replace(word))
	}
	return out
}
