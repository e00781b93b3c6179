package source

import "bytes"

// eolMode says whether line ends become CR LF.
type eolMode int

const (
	eolAsIs   eolMode = iota
	eolCRLF           // always
	eolIfText         // only when the content looks like text without CRs
)

// eolOf follows Git's order: text, then the older crlf, then eol. The user's
// core.autocrlf and core.eol are left out on purpose.
func eolOf(attrs map[string]string) eolMode {
	text, ok := attrs["text"]
	if !ok || text == attrUnspecified {
		text = attrs["crlf"]
	}
	switch {
	case text == attrUnset, attrs["eol"] != "crlf":
		return eolAsIs
	case text == "auto":
		return eolIfText
	}
	return eolCRLF
}

// convert returns content with line ends as asked for.
func (m eolMode) convert(content []byte) []byte {
	if m == eolAsIs {
		return content
	}
	s := countBytes(content)
	if s.loneLF == 0 || m == eolIfText && (s.crlf > 0 || s.binary()) {
		return content
	}
	out := make([]byte, 0, len(content)+s.loneLF)
	for i, c := range content {
		if c == '\n' && (i == 0 || content[i-1] != '\r') {
			out = append(out, '\r')
		}
		out = append(out, c)
	}
	return out
}

// byteCounts are what Git's own guess at "binary" is made from.
type byteCounts struct {
	nul, loneCR, loneLF, crlf, printable, nonPrintable int
}

func countBytes(content []byte) byteCounts {
	var s byteCounts
	for i := 0; i < len(content); i++ {
		switch c := content[i]; {
		case c == '\r' && i+1 < len(content) && content[i+1] == '\n':
			s.crlf++
			i++
		case c == '\r':
			s.loneCR++
		case c == '\n':
			s.loneLF++
		case c == 0:
			s.nul++
			s.nonPrintable++
		case c == 127 || c < 32 && c != '\b' && c != '\t' && c != 033 && c != 014:
			s.nonPrintable++
		default:
			s.printable++
		}
	}
	if bytes.HasSuffix(content, []byte{032}) {
		s.nonPrintable-- // an old end-of-file mark
	}
	return s
}

func (s byteCounts) binary() bool {
	return s.loneCR > 0 || s.nul > 0 || s.printable>>7 < s.nonPrintable
}
