package hook

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kbisect/kbisect/pipeline/source"
)

// openRepo opens the repository that git works on when it calls a hook. git names it in GIT_DIR, which may not be
// the one around the working directory. The caller closes it.
func openRepo(dir string) (*source.Repo, error) {
	repo, err := source.Open(dir)
	named := os.Getenv("GIT_DIR")
	if named == "" || dir != "." {
		return repo, err
	}
	for _, other := range []string{os.Getenv("GIT_WORK_TREE"), named} {
		if err == nil && source.SameFile(repo.GitDir(), named) {
			return repo, nil
		}
		if x, otherErr := source.Open(other); other != "" && otherErr == nil {
			if err == nil {
				repo.Close()
			}
			repo, err = x, nil
		}
	}
	return repo, err
}

// Dir is the folder, by its absolute path, in which git looks for hooks; it need not exist.
func Dir(ctx context.Context, repo *source.Repo) (string, error) {
	dir, err := gitOutput(ctx, repo, "rev-parse", "--path-format=absolute", "--git-path", "hooks")
	if err != nil {
		return "", fmt.Errorf("finding the folder of hooks: %w", err)
	}
	return filepath.Clean(dir), nil
}

// gitOutput runs git on a repository and returns its standard output without the last newline. Its error has what
// git said.
func gitOutput(ctx context.Context, repo *source.Repo, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "git", append([]string{"--git-dir=" + repo.GitDir()}, args...)...)
	cmd.Env = append(withoutGitDir(os.Environ()), "LC_ALL=C", "GIT_OPTIONAL_LOCKS=0")
	if cmd.Dir = repo.GitDir(); repo.WorkDir() != "" {
		cmd.Dir = repo.WorkDir()
	}
	out, err := cmd.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		err = fmt.Errorf("git %s: %w: %s", args[0], err, strings.TrimSpace(string(exit.Stderr)))
	}
	return strings.TrimSuffix(string(out), "\n"), err
}

// withoutGitDir removes the variables by which git points the programs that it calls to its repository: those of git
// rev-parse --local-env-vars. With them a git in another directory would work on the wrong repository or index.
func withoutGitDir(env []string) []string {
	local := []string{"ALTERNATE_OBJECT_DIRECTORIES", "COMMON_DIR", "CONFIG", "CONFIG_COUNT", "CONFIG_PARAMETERS", "DIR", "GRAFT_FILE",
		"IMPLICIT_WORK_TREE", "INDEX_FILE", "INTERNAL_SUPER_PREFIX", "NAMESPACE", "NO_REPLACE_OBJECTS", "OBJECT_DIRECTORY", "PREFIX",
		"QUARANTINE_PATH", "REPLACE_REF_BASE", "SHALLOW_FILE", "WORK_TREE"}
	return slices.DeleteFunc(slices.Clone(env), func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		suffix, git := strings.CutPrefix(name, "GIT_")
		return git && slices.Contains(local, suffix)
	})
}

// OwnPath is the path by which kbisect was called, for the hook's script: a link that a package manager keeps up to
// date rather than the file behind it, which the next update removes.
func OwnPath() (string, error) {
	exe, err := os.Executable()
	if err != nil {
		return "", err
	}
	called, lookErr := exec.LookPath(os.Args[0])
	if lookErr != nil || !source.SameFile(called, exe) {
		return exe, nil
	}
	return filepath.Abs(called)
}
