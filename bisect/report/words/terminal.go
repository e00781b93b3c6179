package words

import (
	"bytes"
	"io"
	"strings"
	"sync"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// Printable puts a text on one line that cannot drive a terminal or reverse the direction of what follows: every other
// character becomes a space.
func Printable(s string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, s)
}

// Writer replaces by spaces, in all that it passes on, whatever could drive a terminal or hide text: control
// characters except line feeds and tabs, and characters without a shape. Names, subjects and reasons come from
// strangers; as every stream of the program is a Writer, no place that prints one can be forgotten. Goroutines may
// share one: each Write stays whole.
type Writer struct {
	mu   sync.Mutex
	raw  io.Writer
	part []byte // the beginning of a character, until the rest comes
}

// NewWriter returns a Writer on a stream.
func NewWriter(w io.Writer) *Writer { return &Writer{raw: w} }

// Raw is the stream behind a Writer, for colours and the cursor. Whatever else is written to it must be [Printable].
func Raw(w io.Writer) io.Writer {
	if c, ok := w.(*Writer); ok {
		return c.raw
	}
	return w
}

// Write implements io.Writer.
func (w *Writer) Write(data []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := append(w.part, data...)
	whole := len(all)
	for back := 1; back < utf8.UTFMax && back <= len(all); back++ {
		if at := len(all) - back; utf8.RuneStart(all[at]) {
			if !utf8.FullRune(all[at:]) {
				whole = at
			}
			break
		}
	}
	w.part = bytes.Clone(all[whole:])
	clean := bytes.Map(func(r rune) rune {
		if r == '\n' || r == '\t' || unicode.IsGraphic(r) {
			return r
		}
		return ' '
	}, all[:whole])
	if _, err := w.raw.Write(clean); err != nil {
		return 0, err
	}
	return len(data), nil
}

// JSON escapes in a document what a [Writer] would take out, so that nothing of it is lost.
func JSON(document []byte) []byte {
	var out bytes.Buffer
	for _, r := range string(document) {
		switch {
		case r == '\n' || r == '\t' || unicode.IsGraphic(r):
			out.WriteRune(r)
		default:
			for _, unit := range utf16.AppendRune(nil, r) {
				const digits = "0123456789abcdef"
				out.Write([]byte{'\\', 'u', digits[unit>>12], digits[unit>>8&15], digits[unit>>4&15], digits[unit&15]})
			}
		}
	}
	return out.Bytes()
}
