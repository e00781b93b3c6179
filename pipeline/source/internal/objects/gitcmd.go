package objects

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// gitcmd is the back end on the git binary: one "git cat-file --batch" kept running, which knows
// every kind of repository that git knows.
type gitcmd struct {
	Layout
	partial bool
	replace bool // objects may be replaced by others
	cmd     *exec.Cmd
	in      io.WriteCloser
	out     *bufio.Reader
	body    *batchBody // the answer being read, nil when none is
}

// Command prepares a git process that sees this repository and nothing of the caller's GIT_
// variables. When the context ends it is told to, so that it removes what it has half fetched, and
// what it has started is not waited for.
func (l Layout) Command(ctx context.Context, args ...string) *exec.Cmd {
	// Nothing may tidy up the user's repository because we have read it, and a short id is that of
	// a commit.
	options := []string{"--git-dir=" + l.GitDir, "-c", "core.quotePath=false", "-c", "core.disambiguate=committish",
		"-c", "gc.auto=0", "-c", "maintenance.auto=false"}
	cmd := exec.CommandContext(ctx, "git", append(options, args...)...)
	cmd.Cancel, cmd.WaitDelay = func() error { return cmd.Process.Signal(syscall.SIGTERM) }, 500*time.Millisecond
	cmd.Env = scrubbedEnv()
	// Remotes may be given by a path relative to here.
	cmd.Dir = l.GitDir
	if l.WorkDir != "" {
		cmd.Dir = l.WorkDir
	}
	return cmd
}

// scrubbedEnv is our environment without the variables by which git would read another repository,
// as it has them inside a hook.
func scrubbedEnv() []string {
	env := []string{"LC_ALL=C", "GIT_TERMINAL_PROMPT=0", "GIT_OPTIONAL_LOCKS=0"}
	for _, kv := range os.Environ() {
		name, _, _ := strings.Cut(kv, "=")
		// GIT_CONFIG_GLOBAL, GIT_CONFIG_NOSYSTEM, GIT_SSH and GIT_ASKPASS are the user's way to
		// reach a remote; the rest would redirect us.
		keep := strings.HasPrefix(name, "GIT_SSH") || strings.HasPrefix(name, "GIT_TRACE") ||
			strings.HasPrefix(name, "GIT_HTTP") || name == "GIT_ASKPASS" || name == "GIT_EXEC_PATH" ||
			name == "GIT_CONFIG_GLOBAL" ||
			name == "GIT_CONFIG_SYSTEM" || name == "GIT_CONFIG_NOSYSTEM"
		if name == "LC_ALL" || strings.HasPrefix(name, "GIT_") && !keep {
			continue
		}
		env = append(env, kv)
	}
	return env
}

func openGitCmd(l Layout, feat Features) (*gitcmd, error) {
	g := &gitcmd{Layout: l, partial: feat.partial, replace: feat.Replace}
	return g, g.start()
}

// start starts the batch process. No context ends it: it serves all calls until Close.
func (g *gitcmd) start() error {
	cmd := g.Command(context.Background(), "cat-file", "--batch")
	in, err := cmd.StdinPipe()
	if err != nil {
		return fmt.Errorf("start git cat-file: %w", err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return fmt.Errorf("start git cat-file: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start git cat-file: %w", err)
	}
	g.cmd, g.in, g.out, g.body = cmd, in, bufio.NewReaderSize(out, 64<<10), nil
	return nil
}

// Open asks for one object. A process that has died (a signal meant for the whole terminal, say) is
// started again once.
func (g *gitcmd) Open(id string) (string, int64, io.ReadCloser, error) {
	if g.body != nil {
		g.body.Close()
	}
	if g.cmd != nil {
		kind, size, r, err := g.ask(id)
		if err == nil || IsMissing(err) {
			return kind, size, r, err
		}
		g.stop()
	}
	if err := g.start(); err != nil {
		return "", 0, nil, err
	}
	return g.ask(id)
}

// ask sends one id to the running process and reads the head of its answer. Only full ids are sent,
// because the process would take any other text for a revision.
func (g *gitcmd) ask(id string) (string, int64, io.ReadCloser, error) {
	if !IsID(id) {
		return "", 0, nil, &MissingError{id}
	}
	if _, err := io.WriteString(g.in, id+"\n"); err != nil {
		return "", 0, nil, fmt.Errorf("git cat-file %s: %w", id, err)
	}
	line, err := g.out.ReadString('\n')
	if err != nil {
		return "", 0, nil, fmt.Errorf("git cat-file %s: %w", id, err)
	}
	fields := strings.Fields(line)
	if len(fields) == 2 && (fields[1] == "missing" || fields[1] == "ambiguous") {
		return "", 0, nil, &MissingError{id}
	}
	if len(fields) != 3 {
		return "", 0, nil, fmt.Errorf("git cat-file %s: unexpected answer %q", id, line)
	}
	size, err := strconv.ParseInt(fields[2], 10, 64)
	if err != nil {
		return "", 0, nil, fmt.Errorf("git cat-file %s: unexpected answer %q", id, line)
	}
	g.body = &batchBody{g: g, left: size}
	if g.replace {
		return fields[1], size, g.body, nil // it may be another object's
	}
	return fields[1], size, checkContent(id, fields[1], size, g.body, nil), nil
}

// batchBody is the content of one answer; Close skips what was not read.
type batchBody struct {
	g    *gitcmd
	left int64
}

// Read reads no further than this answer: what follows it in the pipe is the next one.
func (b *batchBody) Read(p []byte) (int, error) {
	if b.left == 0 {
		return 0, io.EOF
	}
	if int64(len(p)) > b.left {
		p = p[:b.left]
	}
	n, err := b.g.out.Read(p)
	b.left -= int64(n)
	if errors.Is(err, io.EOF) && b.left > 0 {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

// Close leaves the pipe at the beginning of the next answer, whatever was read of this one.
func (b *batchBody) Close() error {
	if b.g.body != b {
		return nil
	}
	b.g.body = nil
	_, err := io.CopyN(io.Discard, b.g.out, b.left+1) // and the final newline
	if err != nil {
		b.g.stop()
	}
	return err
}

// Run returns the output of one short git command.
func (l Layout) Run(ctx context.Context, stdin io.Reader, args ...string) (string, error) {
	cmd := l.Command(ctx, args...)
	cmd.Stdin = stdin
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if ctx.Err() != nil {
		return "", ctx.Err()
	}
	if err != nil {
		return "", fmt.Errorf("git %s: %w: %s", args[0], err, strings.TrimSpace(stderr.String()))
	}
	return string(out), nil
}

// Resolve implements Reader.
func (g *gitcmd) Resolve(ctx context.Context, rev string) (string, error) {
	return g.RevParse(ctx, rev)
}

// RevParse asks git; "" means that git knows no such revision. What git would take for an option,
// or for two lines, names none.
func (l Layout) RevParse(ctx context.Context, rev string) (string, error) {
	if strings.HasPrefix(rev, "-") || strings.ContainsAny(rev, "\n\x00") {
		return "", nil
	}
	out, err := l.Run(ctx, nil, "rev-parse", "--verify", "--quiet", rev)
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() == 1 {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	if id := strings.TrimSpace(out); IsID(id) {
		return id, nil
	}
	return "", nil
}

// Refs implements Reader.
func (g *gitcmd) Refs() ([]string, error) {
	out, err := g.Run(context.Background(), nil,
		"for-each-ref", "--format=%(refname:short)", "refs/heads", "refs/tags", "refs/remotes")
	return strings.Fields(out), err
}

func (g *gitcmd) Name() string { return "git" }

// Parallel is false: there is one pipe, and one answer in it at a time.
func (g *gitcmd) Parallel() bool { return false }

// Another starts a process of its own.
func (g *gitcmd) Another() (Reader, error) {
	o := &gitcmd{Layout: g.Layout, partial: g.partial, replace: g.replace}
	return o, o.start()
}

// stop ends the batch process; the next open starts another.
func (g *gitcmd) stop() {
	if g.cmd == nil {
		return
	}
	g.in.Close()
	g.cmd.Process.Kill()
	g.cmd.Wait()
	g.cmd, g.body = nil, nil
}

func (g *gitcmd) Close() error {
	g.stop()
	return nil
}

// Prefetch implements Reader; otherwise git fetches objects one by one as they are read. It uses the
// options of git's own fetch on demand.
func (g *gitcmd) Prefetch(ctx context.Context, commit string) error {
	if !g.partial {
		return nil
	}
	// Once missing trees are here, their missing blobs are known too.
	for range 4 {
		ids, err := g.missing(ctx, commit)
		if err != nil || len(ids) == 0 {
			return ctx.Err() // what is still missing is fetched when read
		}
		_, err = g.Run(ctx, strings.NewReader(strings.Join(ids, "\n")+"\n"),
			"-c", "fetch.negotiationAlgorithm=noop", "fetch", g.promisor(ctx), "--quiet", "--no-tags",
			"--no-write-fetch-head", "--recurse-submodules=no", "--filter=blob:none", "--stdin")
		if err != nil {
			return fmt.Errorf("commit %s: fetch %d missing objects: %w\n"+
				"hint: check the connection to the remote, or git fetch --refetch --no-filter", Short(commit), len(ids), err)
		}
	}
	return nil
}

// missing lists the objects of a commit that are not here. Without the history before it: only its
// own tree is read.
func (g *gitcmd) missing(ctx context.Context, commit string) ([]string, error) {
	out, err := g.Run(ctx, nil, "rev-list", "--objects", "--missing=print", "--no-walk", commit)
	if err != nil {
		return nil, err
	}
	var ids []string
	for line := range strings.SplitSeq(out, "\n") {
		if id, ok := strings.CutPrefix(line, "?"); ok && IsID(id) {
			ids = append(ids, id)
		}
	}
	return ids, nil
}

// promisor is the remote that has the missing objects: that of the extension, or in older clones
// the first that says so.
func (g *gitcmd) promisor(ctx context.Context) string {
	if name, err := g.Run(ctx, nil, "config", "extensions.partialClone"); err == nil && strings.TrimSpace(name) != "" {
		return strings.TrimSpace(name)
	}
	out, err := g.Run(ctx, nil, "config", "--name-only", "--get-regexp", `^remote\..*\.promisor$`)
	key, _, _ := strings.Cut(out, "\n")
	if err != nil || key == "" {
		return "origin"
	}
	return strings.TrimSuffix(strings.TrimPrefix(key, "remote."), ".promisor")
}
