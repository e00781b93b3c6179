package session

import (
	"fmt"
	"slices"

	"github.com/kbisect/kbisect/bisect/report"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/wording"
)

// Warnings are those of the repository, its range and the configuration.
func (j *Session) Warnings() []string {
	out := append(j.Repo.Warnings(), j.Policy.Warnings...)
	out = append(out, deadMetrics(j)...)
	if j.Range != nil {
		out = append(out, j.Range.Warnings...)
	}
	for _, p := range j.Pipes {
		for _, w := range p.Warnings() {
			if !slices.Contains(out, w) {
				out = append(out, w)
			}
		}
	}
	if j.Slots == nil {
		return out
	}
	if n, took := j.Slots.Lost(); n > 0 {
		out = append(out, fmt.Sprintf("trials begun ahead that nobody asked for were stopped: %d, after %s in all, which the totals leave out", n, wording.Span(took)))
	}
	return out
}

func (j *Session) CommitInfo(id string, files bool) report.CommitInfo {
	info := report.CommitInfo{ID: id}
	if id == "" {
		return info
	}
	c, err := j.Repo.Commit(id)
	if err != nil {
		return info
	}
	info.Subject, info.Author, info.Email, info.When = c.Subject, c.Author, c.Email, c.When
	if !files {
		return info
	}
	changed, err := j.Repo.ChangedFiles(id)
	if err != nil {
		j.Display.Warn(err.Error())
	}
	for _, x := range changed {
		info.Files = append(info.Files, report.File{Kind: x.Kind, Path: x.Path})
	}
	return info
}
