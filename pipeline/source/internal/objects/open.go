package objects

import (
	"context"
	"fmt"
	"os/exec"

	"github.com/kbisect/kbisect/bisect/hint"
)

// Repo is an open repository: where it lies, what it is like, and what reads its objects.
type Repo struct {
	Layout
	Features Features
	Objects  Reader
}

// Open opens the repository at a place, and says what is unusual about how it is read.
func Open(l Layout) (Repo, []string, error) {
	feat, err := inspect(l)
	if err != nil {
		return Repo{}, nil, err
	}
	objs, warnings, err := openObjects(l, feat)
	if err != nil {
		return Repo{}, nil, fmt.Errorf("open repository %s: %w", l.CommonDir, err)
	}
	return Repo{l, feat, objs}, warnings, nil
}

// openObjects chooses by probing: go-git unless the repository's features or a failed first read
// ask for git. go-git comes first because it needs no process for each export and lets several
// goroutines read.
func openObjects(l Layout, feat Features) (Reader, []string, error) {
	var warnings []string
	reason := feat.needGit
	if reason == "" {
		g, err := openGoGit(l)
		if err == nil {
			if err = probe(g); err == nil {
				return g, nil, nil
			}
			g.Close()
		}
		reason = fmt.Sprintf("go-git cannot read it (%v)", err)
	}
	if _, err := exec.LookPath("git"); err != nil {
		if feat.Replace && !feat.partial {
			// It can be read, but replacements are ignored.
			if g, err := openGoGit(l); err == nil && probe(g) == nil {
				return g, []string{"replace refs are ignored because the git program was not found\nhint: install git"}, nil
			}
		}
		return nil, nil, hint.Add(fmt.Errorf("the git program is needed to read it because %s, and none was found", reason),
			"install git and put it on PATH")
	}
	if _, err := l.Run(context.Background(), nil, "rev-parse", "--git-dir"); err != nil {
		return nil, nil, err
	}
	g, err := openGitCmd(l, feat)
	if err != nil {
		return nil, nil, err
	}
	warnings = append(warnings, "read through the git program because "+reason)
	return g, warnings, nil
}

// probe reads the commit at HEAD, its tree and its references. An unborn HEAD is not an error.
func probe(g *gogit) error {
	id, err := g.ref("HEAD")
	if err != nil || id == "" {
		return err
	}
	c, _, err := ReadCommit(g, id)
	if err != nil {
		return err
	}
	_, err = ReadTree(g, c.Tree)
	return err
}
