package protocol

import (
	"bytes"
	"regexp"
)

// pythonEnd matches the line that names an exception, which is not indented, and such a line of any text.
var (
	pythonEnd   = regexp.MustCompile(`(?m)^([A-Za-z_][\w.]{0,127})(?::|\r?$)`)
	pythonError = regexp.MustCompile(`(?m)^((?:[A-Za-z_]\w*\.){0,8}[A-Z]\w{0,63}(?:Error|Exception)):`)
)

// PythonError returns the name of the last exception that Python printed, such as "RuntimeError" or
// "torch._dynamo.exc.Unsupported", or "".
func PythonError(output []byte) string {
	if rest, ok := lastTraceback(output); ok {
		if m := pythonEnd.FindSubmatch(rest); m != nil {
			return string(m[1])
		}
		return ""
	}
	name := "" // a syntax error has no header
	for _, m := range pythonError.FindAllSubmatch(output, -1) {
		name = string(m[1])
	}
	return name
}

// PythonWords returns the first line of the last exception that a traceback ends with, or nil: those of CUDA go on
// with advice for lines.
func PythonWords(output []byte) []byte {
	rest, _ := lastTraceback(output)
	if m := pythonEnd.FindIndex(rest); m != nil {
		line, _, _ := bytes.Cut(rest[m[0]:], []byte("\n"))
		return line
	}
	return nil
}

// lastTraceback is what follows the header of the last traceback.
func lastTraceback(output []byte) (rest []byte, ok bool) {
	const header = "Traceback (most recent call last):"
	i := bytes.LastIndex(output, []byte(header))
	if i < 0 {
		return nil, false
	}
	return output[i+len(header):], true
}
