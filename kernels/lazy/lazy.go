// Package lazy compiles regular expressions when they are first used: a hundred of them would be half of what the
// program does before main.
package lazy

import (
	"regexp"
	"sync"
)

// Pattern is a regular expression that must be valid.
func Pattern(expr string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expr) })
}
