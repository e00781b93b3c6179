package kernels

import "bytes"

// pythonEnd matches the line that names an exception, which is not indented, and such a line of any text.
var (
	pythonEnd   = lazily(`(?m)^([A-Za-z_][\w.]{0,127})(?::|\r?$)`)
	pythonError = lazily(`(?m)^((?:[A-Za-z_]\w*\.){0,8}[A-Z]\w{0,63}(?:Error|Exception)):`)
)

// PythonError returns the name of the last exception that Python printed, such as "RuntimeError" or
// "torch._dynamo.exc.Unsupported", or "".
func PythonError(output []byte) string {
	const header = "Traceback (most recent call last):"
	if i := bytes.LastIndex(output, []byte(header)); i >= 0 {
		if m := pythonEnd().FindSubmatch(output[i+len(header):]); m != nil {
			return string(m[1])
		}
		return ""
	}
	name := "" // a syntax error has no header
	for _, m := range pythonError().FindAllSubmatch(output, -1) {
		name = string(m[1])
	}
	return name
}
