package kernels

import (
	"bytes"
	"strings"

	"github.com/kbisect/kbisect/kernels/protocol"
)

// Directives are the lines `#!POPCORN WORD ...` and `//!POPCORN WORD ...` of a submission.
type Directives struct {
	Leaderboard string
	GPUs        []string
	Unknown     []string // words that KernelBot's client does not know
}

// ReadDirectives reads those at the beginning of a submission.
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

// NamedProblem is an entry of a list of problems of KernelBot's: the folder of a problem, from that of the list,
// and the leaderboard that it is for.
type NamedProblem struct {
	Folder      string `yaml:"directory"`
	Leaderboard string `yaml:"name"`
}

// ParseProblems reads such a list, a YAML file beside the folders; nil where the text is none.
func ParseProblems(data []byte) []NamedProblem {
	var list struct {
		Problems []NamedProblem `yaml:"problems"`
	}
	if len(data) > maxTask || decodeYAML(data, &list) != nil {
		return nil
	}
	return list.Problems
}
