package source

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

// gitcmd is the back end on the git binary: one "git cat-file --batch" kept
// running, which knows every kind of repository that git knows.
type gitcmd struct {
	layout
	partial bool
	replace bool // objects may be replaced by others
	cmd     *exec.Cmd
	in      io.WriteCloser
	out     *bufio.Reader
	body    *batchBody // the answer being read, nil when none is
}

// command prepares a git process that sees this repository and nothing of
// the caller's GIT_ variables. When the context ends it is told to, so that it
// removes what it has half fetched, and what it has started is not waited for.
func (l layout) command(ctx context.Context, args ...string) *exec.Cmd {
	args = append([]string{"--git-dir=" + l.gitDir, "-c", "core.quotePath=false", "-c", "core.disambiguate=committish", "-c", "gc.auto=0", "-c", "maintenance.auto=false"}, args...)
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Cancel, cmd.WaitDelay = func() error { return cmd.Process.Signal(syscall.SIGTERM) }, 500*time.Millisecond
	cmd.Env = scrubbedEnv()
	// Remotes may be given by a path relative to here.
	cmd.Dir = l.gitDir
	if l.workDir != "" {
		cmd.Dir = l.workDir
	}
	return cmd
}

// scrubbedEnv is our environment without the variables by which git would read
// another repository, as it has them inside a hook.
func scrubbedEnv() []string {
	env := []string{"LC_ALL=C", "GIT_TERMINAL_PROMPT=0", "GIT_OPTIONAL_LOCKS=0"}
	for _, kv := range os.Environ() {
		name, _, _ := strings.Cut(kv, "=")
		// GIT_CONFIG_GLOBAL, GIT_CONFIG_NOSYSTEM, GIT_SSH and GIT_ASKPASS are the
		// user's way to reach a remote; the rest would redirect us.
		keep := strings.HasPrefix(name, "GIT_SSH") || strings.HasPrefix(name, "GIT_TRACE") || strings.HasPrefix(name, "GIT_HTTP") ||
			name == "GIT_ASKPASS" || name == "GIT_EXEC_PATH" || name == "GIT_CONFIG_GLOBAL" ||
			name == "GIT_CONFIG_SYSTEM" || name == "GIT_CONFIG_NOSYSTEM"
		if name == "LC_ALL" || strings.HasPrefix(name, "GIT_") && !keep {
			continue
		}
		env = append(env, kv)
	}
	return env
}

func openGitCmd(l layout, feat features) (*gitcmd, error) {
	g := &gitcmd{layout: l, partial: feat.partial, replace: feat.replace}
	return g, g.start()
}

// start starts the batch process.
func (g *gitcmd) start() error {
	cmd := g.command(context.Background(), "cat-file", "--batch")
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

// open asks for one object. A process that has died (a signal meant for the
// whole terminal, say) is started again once.
func (g *gitcmd) open(id string) (string, int64, io.ReadCloser, error) {
	if g.body != nil {
		g.body.Close()
	}
	if g.cmd != nil {
		kind, size, r, err := g.ask(id)
		if err == nil || isMissing(err) {
			return kind, size, r, err
		}
		g.stop()
	}
	if err := g.start(); err != nil {
		return "", 0, nil, err
	}
	return g.ask(id)
}

// ask sends one id to the running process and reads the head of its answer.
func (g *gitcmd) ask(id string) (string, int64, io.ReadCloser, error) {
	if !isFullID(id) {
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

// run returns the output of one short git command.
func (g *gitcmd) run(ctx context.Context, stdin io.Reader, args ...string) (string, error) {
	return runGit(ctx, g.layout, stdin, args...)
}

// runGit returns the output of one git command that sees only this repository.
func runGit(ctx context.Context, l layout, stdin io.Reader, args ...string) (string, error) {
	cmd := l.command(ctx, args...)
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

func (g *gitcmd) resolve(ctx context.Context, rev string) (string, error) {
	return gitRevParse(ctx, g.layout, rev)
}

// gitRevParse asks git; "" means that git knows no such revision.
func gitRevParse(ctx context.Context, l layout, rev string) (string, error) {
	if strings.HasPrefix(rev, "-") || strings.ContainsAny(rev, "\n\x00") {
		return "", nil
	}
	out, err := runGit(ctx, l, nil, "rev-parse", "--verify", "--quiet", rev)
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() == 1 {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	if id := strings.TrimSpace(out); isFullID(id) {
		return id, nil
	}
	return "", nil
}

func (g *gitcmd) refs() ([]string, error) {
	out, err := g.run(context.Background(), nil, "for-each-ref", "--format=%(refname:short)", "refs/heads", "refs/tags", "refs/remotes")
	return strings.Fields(out), err
}

func (g *gitcmd) name() string { return "git" }

func (g *gitcmd) parallel() bool { return false }

func (g *gitcmd) another() (objects, error) {
	o := &gitcmd{layout: g.layout, partial: g.partial, replace: g.replace}
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

func (g *gitcmd) close() error {
	g.stop()
	return nil
}

// prefetch fetches the objects of one commit that a partial clone lacks in one
// request; otherwise git fetches them one by one as they are read. It uses the
// options of git's own fetch on demand.
func (g *gitcmd) prefetch(ctx context.Context, commit string) error {
	if !g.partial {
		return nil
	}
	// Once missing trees are here, their missing blobs are known too.
	for range 4 {
		ids, err := g.missing(ctx, commit)
		if err != nil || len(ids) == 0 {
			return ctx.Err() // what is still missing is fetched when read
		}
		_, err = g.run(ctx, strings.NewReader(strings.Join(ids, "\n")+"\n"),
			"-c", "fetch.negotiationAlgorithm=noop", "fetch", g.promisor(ctx), "--quiet", "--no-tags",
			"--no-write-fetch-head", "--recurse-submodules=no", "--filter=blob:none", "--stdin")
		if err != nil {
			return fmt.Errorf("commit %s: fetch %d missing objects: %w\nhint: check the connection to the remote, or git fetch --refetch --no-filter",
				short(commit), len(ids), err)
		}
	}
	return nil
}

// missing lists the objects of a commit that are not here. Without the history
// before it: only its own tree is read.
func (g *gitcmd) missing(ctx context.Context, commit string) ([]string, error) {
	out, err := g.run(ctx, nil, "rev-list", "--objects", "--missing=print", "--no-walk", commit)
	if err != nil {
		return nil, err
	}
	var ids []string
	for line := range strings.SplitSeq(out, "\n") {
		if id, ok := strings.CutPrefix(line, "?"); ok && isFullID(id) {
			ids = append(ids, id)
		}
	}
	return ids, nil
}

// promisor is the remote that has the missing objects.
func (g *gitcmd) promisor(ctx context.Context) string {
	if name, err := g.run(ctx, nil, "config", "extensions.partialClone"); err == nil && strings.TrimSpace(name) != "" {
		return strings.TrimSpace(name)
	}
	out, err := g.run(ctx, nil, "config", "--name-only", "--get-regexp", `^remote\..*\.promisor$`)
	key, _, _ := strings.Cut(out, "\n")
	if err != nil || key == "" {
		return "origin"
	}
	return strings.TrimSuffix(strings.TrimPrefix(key, "remote."), ".promisor")
}

// Mirror makes dir a bare copy of a repository, with these commits whether references lead to them or not, or brings the
// copy that is there up to date.
func Mirror(ctx context.Context, r *Repo, dir string, commits ...string) error {
	return copyInto(ctx, r, dir, []string{"--prune", "--update-shallow"}, []string{"+refs/*:refs/*"}, commits)
}

// Extract makes dir a bare repository of these commits alone, in one pack, without what came before them.
func Extract(ctx context.Context, r *Repo, dir string, commits ...string) error {
	return copyInto(ctx, r, dir, []string{"--depth=1", "--no-tags", "--keep"}, nil, commits)
}

func copyInto(ctx context.Context, r *Repo, dir string, options, refs, commits []string) error {
	to := layout{gitDir: dir, commonDir: dir}
	format, err := runGit(ctx, r.layout, nil, "rev-parse", "--show-object-format")
	if err = errors.Join(err, os.MkdirAll(dir, 0o700)); err == nil {
		_, err = runGit(ctx, to, nil, "init", "--quiet", "--bare", "--template=", "--object-format="+strings.TrimSpace(format))
	}
	args := append([]string{"fetch", "--quiet", "--no-write-fetch-head", "--no-recurse-submodules"}, options...)
	args = append(append(args, r.commonDir), refs...)
	for _, id := range commits {
		args = append(args, "+"+id+":refs/kbisect/"+id)
	}
	if err == nil {
		_, err = runGit(ctx, to, nil, args...)
	}
	return err
}
