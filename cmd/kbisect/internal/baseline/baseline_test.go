package baseline

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/kbisect/kbisect/cmd/kbisect/internal/machine"
)

// aBaseline is one that may be read.
func aBaseline() Baseline {
	return Baseline{
		Schema: Schema, Session: "s", Commit: strings.Repeat("a", 40), Subject: "fine", Recorded: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
		Launches: 3, Levels: []Level{{Metric: "time", Case: "n1", Unit: "s", Median: 2, Values: []float64{1, 2, 3}}},
		Machine: machine.Machine{Devices: []machine.Device{{Name: "NVIDIA H200", UUID: "GPU-1"}}, Driver: "550.1", CUDA: "12.4"},
		Config:  measuredBy{Fingerprint: Fingerprint("x"), Run: "./bench"},
	}
}

func TestReadBaseline(t *testing.T) {
	good, err := json.Marshal(aBaseline())
	if err != nil {
		t.Fatal(err)
	}
	if b, err := Read(bytes.NewReader(good)); err != nil || !reflect.DeepEqual(b, aBaseline()) {
		t.Fatalf("%+v, %v", b, err)
	}
	for old, wrong := range map[string]string{
		`"kbisect.baseline/1"`: `"kbisect.baseline/2"`, strings.Repeat("a", 40): "HEAD", `"launches":3`: `"launches":2`,
		`"2026-01-02T03:04:05Z"`: `"0001-01-01T00:00:00Z"`, `"median":2`: `"median":1`, `"launches":[1,2,3]`: `"launches":[]`,
		`"metric":"time"`: `"metric":""`, `"GPU-1"`: `"../x"`, `"unit"`: `"unjt"`, `{"schema"`: `{"x":1,"schema"`,
		Fingerprint("x"): "", `[{"metric"`: `[],"levels":[{"metric"`, `2026-01`: `2999-01`,
	} {
		text := strings.Replace(string(good), old, wrong, 1)
		_, err := Read(strings.NewReader(text))
		if wrong == `[],"levels":[{"metric"` { // the second counts, as everywhere in JSON
			continue
		}
		if text == string(good) || err == nil || !strings.HasPrefix(err.Error(), "invalid baseline: ") {
			t.Errorf("%s for %s: %v", wrong, old, err)
		}
	}
	for _, text := range []string{"", "null", "[]", "{}", string(good) + "x", string(good[:len(good)-2]), string(good) + string(good)} {
		if _, err := Read(strings.NewReader(text)); err == nil {
			t.Errorf("%.40q is read", text)
		}
	}
	if _, err := Read(strings.NewReader(strings.Repeat(" ", maxSize+1))); err == nil || !strings.Contains(err.Error(), "larger than 8 MiB") {
		t.Error(err)
	}
}

func FuzzReadBaseline(f *testing.F) {
	good, err := json.Marshal(aBaseline())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add([]byte("{}"))
	f.Fuzz(func(t *testing.T, data []byte) {
		b, err := Read(bytes.NewReader(data))
		if err != nil {
			return
		}
		again, err := json.Marshal(b)
		if err != nil {
			t.Fatal(err)
		}
		c, err := Read(bytes.NewReader(again))
		if err != nil || c.Commit != b.Commit || len(c.Levels) != len(b.Levels) {
			t.Errorf("%v: %s", err, again)
		}
		if err := b.Print(&bytes.Buffer{}, nil); err != nil {
			t.Error(err)
		}
	})
}

// TestBaselineHints has a baseline hold for its own device only.
func TestBaselineHints(t *testing.T) {
	h200 := &machine.Machine{Devices: []machine.Device{{Name: "NVIDIA H200", UUID: "GPU-0"}, {Name: "NVIDIA H200", UUID: "GPU-1"}}, Driver: "550.1"}
	other := &machine.Machine{Devices: []machine.Device{{Name: "NVIDIA H100", UUID: "GPU-9"}}, Driver: "560.2"}
	none := &machine.Machine{}
	cpu := aBaseline()
	cpu.Machine = machine.Machine{}
	for _, x := range []struct {
		b     Kept
		here  *machine.Machine
		hints int
		want  string
	}{
		{Kept{Baseline: aBaseline(), Imported: false}, h200, 0, ""},
		{Kept{Baseline: aBaseline(), Imported: true}, h200, 0, ""},
		{Kept{Baseline: aBaseline(), Imported: true}, other, 2, "measured on another device: NVIDIA H200; driver 550.1 then, 560.2 now"},
		{Kept{Baseline: aBaseline(), Imported: false}, none, 1, "measured on another device: NVIDIA H200"},
		{Kept{Baseline: cpu, Imported: false}, none, 0, ""},
		{Kept{Baseline: cpu, Imported: true}, none, 1, "measured without an identifiable device"},
		{Kept{Baseline: cpu, Imported: false}, h200, 1, "measured without an identifiable device"},
	} {
		got := x.b.Hints(x.here)
		if len(got) != x.hints || strings.Join(got, "; ") != x.want {
			t.Errorf("%+v here %+v: %q", x.b.Machine, x.here, got)
		}
	}
}
