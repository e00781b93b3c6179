package kernels

import (
	"regexp"
	"sync"
)

// lazily compiles a pattern when it is first used. Each trial starts this program again, to watch over it,
// which would pay for all patterns and need none.
func lazily(pattern string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(pattern) })
}
