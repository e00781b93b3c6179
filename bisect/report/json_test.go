package report_test

import (
	"bytes"
	"encoding/json"
	"os"
	"reflect"
	"testing"

	"github.com/kbisect/kbisect/bisect/report"
	"github.com/kbisect/kbisect/bisect/report/internal/samples"
)

// sentences are the keys whose words may change from one version to the next.
var sentences = map[string]bool{"headline": true, "verdict": true, "summary": true}

// sameKeys compares a document with what an earlier version has written: every key is there with the same value, but
// for sentences; keys may have been added.
func sameKeys(t *testing.T, at string, was, is any) {
	t.Helper()
	switch was := was.(type) {
	case map[string]any:
		object, _ := is.(map[string]any)
		for key, v := range was {
			now, there := object[key]
			_, sentence := now.(string)
			switch {
			case !there:
				t.Errorf("%s.%s is missing", at, key)
			case !sentence || !sentences[key]:
				sameKeys(t, at+"."+key, v, now)
			}
		}
	case []any:
		list, _ := is.([]any)
		if len(list) != len(was) {
			t.Errorf("%s has %d elements, it had %d", at, len(list), len(was))
			return
		}
		for i, v := range was {
			sameKeys(t, at+"[]", v, list[i])
		}
	default:
		if !reflect.DeepEqual(was, is) {
			t.Errorf("%s is %v, it was %v", at, is, was)
		}
	}
}

// Documents have the keys and values that the first version wrote, and what is kept of them is read back whole.
func TestJSONStays(t *testing.T) {
	for name, d := range map[string]report.Document{
		"found": report.NewSearch(samples.Found()), "slow": report.NewSearch(samples.Slow()), "gate-blamed": samples.Gates()["blamed"],
		"comparison": samples.Comparison("regression", samples.Contrast("regression", "", 1.2)),
	} {
		old, err := os.ReadFile("testdata/" + name + ".json")
		if err != nil {
			t.Fatal(err)
		}
		var now, again bytes.Buffer
		if err := report.WriteJSON(&now, d); err != nil {
			t.Fatal(err)
		}
		var was, is any
		if json.Unmarshal(old, &was) != nil || json.Unmarshal(now.Bytes(), &is) != nil {
			t.Fatalf("%s: no JSON", name)
		}
		sameKeys(t, name, was, is)
		back, err := report.Read(now.Bytes(), "s")
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		var reread any
		if err := report.WriteJSON(&again, back); err != nil || json.Unmarshal(again.Bytes(), &reread) != nil || !reflect.DeepEqual(reread, is) {
			t.Errorf("%s: what was kept is read back as another document: %v", name, err)
		}
		if _, err := report.Read(old, "s"); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, text := range []string{"", "{}", `{"schema":"kbisect.finding/2"}`, `{"schema":"kbisect.gate/1","base":3}`} {
		if d, err := report.Read([]byte(text), "s"); err == nil {
			t.Errorf("%q is read as %T", text, d)
		}
	}
}
