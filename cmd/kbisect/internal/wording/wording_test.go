package wording

import (
	"testing"
	"time"
)

func TestNearest(t *testing.T) {
	choices := []string{"command", "limit", "outputs", "incremental", "run"}
	for word, want := range map[string]string{"limt": "limit", "limits": "limit", "comand": "command", "Output": "outputs", "zebra": "", "x": "", "timeout": "", "lmiit": "limit", "rnu": "run"} {
		if got := Nearest(word, choices); got != want {
			t.Errorf("%q: %q, want %q", word, got, want)
		}
	}
	if got := Nearest(string(make([]byte, 65)), choices); got != "" {
		t.Errorf("a long text: %q", got)
	}
	if DidYouMean("limt", choices) != `; did you mean "limit"?` || DidYouMean("zebra", choices) != "" {
		t.Error("the question is wrong")
	}
}

// TestText holds what each function makes of a text or a number.
func TestText(t *testing.T) {
	for _, c := range []struct{ name, got, want string }{
		{"Headline", Headline("one\nhint: two"), "one"},
		{"Headline of one line", Headline("one"), "one"},
		{"Span below ten seconds", Span(4249 * time.Millisecond), "4.2s"},
		{"Span of a minute and a half", Span(90*time.Second + 400*time.Millisecond), "1m30s"},
	} {
		if c.got != c.want {
			t.Errorf("%s: %q, want %q", c.name, c.got, c.want)
		}
	}
}
