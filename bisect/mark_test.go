package bisect_test

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/kbisect/kbisect/bisect"
)

// TestMarkIsOneTextInJSON reads what earlier versions have stored, and writes the same.
func TestMarkIsOneTextInJSON(t *testing.T) {
	const stored = `["throttled: power cap: 300 W","shared: 2 processes","stalled"]`
	want := []bisect.Mark{{Kind: bisect.Throttled, Text: "power cap: 300 W"}, {Kind: bisect.Shared, Text: "2 processes"}, {Kind: bisect.Stalled}}
	var got []bisect.Mark
	if err := json.Unmarshal([]byte(stored), &got); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%v %v", got, err)
	}
	if text, err := json.Marshal(got); err != nil || string(text) != stored {
		t.Errorf("%s %v", text, err)
	}
}
