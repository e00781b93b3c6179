package kernelbot

import (
	"bytes"
	"strings"

	"github.com/kbisect/kbisect/kernels/protocol"
)

// Directives are the lines `#!POPCORN WORD ...` (Python) or `//!POPCORN WORD ...` (C++) of a submission, read as the
// client of KernelBot reads them. All texts are printable and bounded.
type Directives struct {
	Leaderboard string
	GPUs        []string
	Unknown     []string // words that the client does not know and ignores
}

// ReadDirectives reads the directives in the first 64 KiB of a submission. It never fails: what is not a directive is
// passed over.
func ReadDirectives(source []byte) Directives {
	var d Directives
	for raw := range bytes.Lines(source[:min(len(source), maxTask)]) {
		line := strings.TrimSpace(string(raw))
		rest, ok := strings.CutPrefix(line, "#!POPCORN ")
		if !ok {
			rest, ok = strings.CutPrefix(line, "//!POPCORN ")
		}
		words := strings.Fields(rest)
		if !ok || len(words) == 0 {
			continue
		}
		switch word := strings.ToLower(words[0]); {
		case word == "leaderboard" && len(words) > 1:
			d.Leaderboard = protocol.Plain(words[1], 80)
		case word == "gpu" || word == "gpus":
			for _, w := range words[1:] {
				d.GPUs = append(d.GPUs, protocol.Plain(w, 40))
			}
		default:
			d.Unknown = append(d.Unknown, protocol.Plain(word, 40))
		}
	}
	return d
}

// NamedProblem is an entry of a list of problems.
type NamedProblem struct {
	Folder      string `yaml:"directory"` // from the folder of the list
	Leaderboard string `yaml:"name"`
}

// ParseProblems reads a list of problems, which is a YAML file beside their folders. It returns nil for any other
// text, as callers try it on files of which they do not know what they are.
func ParseProblems(data []byte) []NamedProblem {
	var list struct {
		Problems []NamedProblem `yaml:"problems"`
	}
	if len(data) > maxTask || decodeYAML(data, &list) != nil {
		return nil
	}
	return list.Problems
}
