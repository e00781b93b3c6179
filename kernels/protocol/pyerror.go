package protocol

import (
	"bytes"

	"github.com/kbisect/kbisect/kernels/lazy"
)

// pythonEnd matches the line of a traceback that names the exception: the first that is not
// indented. pythonError matches such a line anywhere in an output.
var (
	pythonEnd   = lazy.Pattern(`(?m)^([A-Za-z_][\w.]{0,127})(?::|\r?$)`)
	pythonError = lazy.Pattern(`(?m)^((?:[A-Za-z_]\w*\.){0,8}[A-Z]\w{0,63}(?:Error|Exception)):`)
)

// PythonError returns the name of the last exception that Python printed, such as "RuntimeError" or
// "torch._dynamo.exc.Unsupported", or "".
func PythonError(output []byte) string {
	if rest, ok := lastTraceback(output); ok {
		if m := pythonEnd().FindSubmatch(rest); m != nil {
			return string(m[1])
		}
		return ""
	}
	name := "" // a SyntaxError has no traceback header
	for _, m := range pythonError().FindAllSubmatch(output, -1) {
		name = string(m[1])
	}
	return name
}

// PythonErrorLine returns the line of the last traceback that names the exception, or nil.
// Only the first line of the message is wanted: CUDA's go on with pages of advice.
func PythonErrorLine(output []byte) []byte {
	rest, _ := lastTraceback(output)
	if m := pythonEnd().FindIndex(rest); m != nil {
		line, _, _ := bytes.Cut(rest[m[0]:], []byte("\n"))
		return line
	}
	return nil
}

// lastTraceback returns what follows the header of the last traceback.
func lastTraceback(output []byte) (rest []byte, ok bool) {
	const header = "Traceback (most recent call last):"
	i := bytes.LastIndex(output, []byte(header))
	if i < 0 {
		return nil, false
	}
	return output[i+len(header):], true
}
