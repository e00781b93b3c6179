package attributes

import (
	"bytes"
	"testing"
)

// Nothing makes the parsers panic, and converted line ends stay as they are when they are converted again.
func FuzzParsers(f *testing.F) {
	f.Add([]byte("*.c text=auto eol=crlf\n[attr]x -text\n"), "a/b.c")
	f.Add([]byte("version https://git-lfs.github.com/spec/v1\noid sha256:"), "")
	f.Fuzz(func(t *testing.T, data []byte, file string) {
		ParseLFSPointer(data)
		New([]File{Parse(string(data))}).Treat(file)
		for _, m := range []LineEnds{AsIs, crlf, crlfIfText} {
			once := m.Convert(data)
			if twice := m.Convert(once); !bytes.Equal(once, twice) {
				t.Errorf("%q became %q", once, twice)
			}
		}
	})
}
