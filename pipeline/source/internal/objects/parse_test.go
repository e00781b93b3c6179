package objects

import "testing"

func FuzzParsers(f *testing.F) {
	f.Add([]byte("100644 a\x00aaaaaaaaaaaaaaaaaaaa"))
	f.Add([]byte("tree 4b825dc642cb6eb9a060e54bf8d69288fbee4904\nauthor A <a> 1 +0000\n\nx"))
	f.Fuzz(func(t *testing.T, data []byte) {
		parseTree(data, 20)
		parseNode("x", data)
	})
}
