package words

import (
	"bytes"
	"encoding/json"
	"testing"
	"unicode"
)

// However a text is cut into writes, the same comes out, and nothing that drives a terminal; JSON stays what it was.
func FuzzWriter(f *testing.F) {
	f.Add("\x1b]0;t\a\r\u202e\u009b\x9b é 漢\U000e0041", 3)
	f.Add("\xe6\xbc", 1)
	f.Fuzz(func(t *testing.T, text string, size int) {
		var whole, parts bytes.Buffer
		NewWriter(&whole).Write([]byte(text))
		w := NewWriter(&parts)
		for rest := []byte(text); len(rest) > 0; {
			n := min(max(1, size), len(rest))
			if got, err := w.Write(rest[:n]); err != nil || got != n {
				t.Fatal(got, err)
			}
			rest = rest[n:]
		}
		if whole.String() != parts.String() {
			t.Errorf("whole %q, in parts %q", whole.String(), parts.String())
		}
		for _, r := range whole.String() {
			if r != '\n' && r != '\t' && !unicode.IsGraphic(r) {
				t.Errorf("%q passed in %q", r, whole.String())
			}
		}
		document, err := json.Marshal(text)
		if err != nil {
			t.Fatal(err)
		}
		var before, after string
		if err := json.Unmarshal(document, &before); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(JSON(document), &after); err != nil || before != after {
			t.Errorf("%q became %q, %v", before, after, err)
		}
	})
}
