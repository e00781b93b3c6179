package gpu

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

// rack has two plain devices, one with two slices, one with a single slice, one
// without slices and one that does not open.
var rack = Report{Available: true, Devices: []Device{
	{Index: 0, UUID: "GPU-00aa"},
	{Index: 1, UUID: "GPU-00ab"},
	{Index: 2, UUID: "GPU-cc", MIG: true, Slices: []string{"MIG-1", "MIG-22"}},
	{Index: 3, UUID: "GPU-dd", MIG: true, Slices: []string{"MIG-2"}},
	{Index: 4, UUID: "GPU-ee", MIG: true},
	{Index: 5, Absent: []Absence{{"device", "no permission"}}},
}}

func TestSelectNamed(t *testing.T) {
	for _, c := range []struct{ spec, want string }{
		{"1", "GPU-00ab"},
		{"1 0 GPU-00ab", "GPU-00ab GPU-00aa"},
		{"GPU-00aa", "GPU-00aa"},
		{"GPU-00ab MIG-22 MIG-2", "GPU-00ab MIG-22 MIG-2"}, // MIG-2 also begins MIG-22
		{"MIG-1", "MIG-1"},
		{"3", "MIG-2"},
		{"GPU-dd", "MIG-2"},
	} {
		got, err := selectNamed(strings.Fields(c.spec), rack)
		if err != nil || !slices.Equal(got, strings.Fields(c.want)) {
			t.Errorf("%s: %v, %v", c.spec, got, err)
		}
	}
	for spec, why := range map[string]string{
		"9":       `device "9": no such device`,
		"-1":      "no such device",
		"GPU-00":  "more than one UUID begins with it",
		"GPU-zz":  "no such device",
		"MIG-":    "more than one UUID",
		"2":       "it is cut into slices; name one of them",
		"GPU-cc":  "it is cut into slices",
		"4":       "MIG mode is on and it has no slices",
		"5":       "the driver does not open it: no permission",
		"auto":    "no such device", // beside others, it is no name
		"NVIDIA":  "no such device",
		"0 GPU-x": `device "GPU-x"`,
	} {
		_, err := selectNamed(strings.Fields(spec), rack)
		if !errors.Is(err, errNoDevice) || !strings.Contains(err.Error(), why) || !strings.Contains(err.Error(), "\nhint: this machine has 0 GPU-00aa, 1 GPU-00ab, 2 GPU-cc, MIG-1, MIG-22, 3") {
			t.Errorf("%s: %v", spec, err)
		}
	}
	if _, err := selectNamed([]string{"0"}, Report{Why: "no driver"}); !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), "no driver") {
		t.Errorf("got %v", err)
	}
	if _, err := selectNamed([]string{"0"}, Report{Available: true}); !errors.Is(err, errNoDevice) || !strings.Contains(err.Error(), "this machine has no device") {
		t.Errorf("got %v", err)
	}
}

func TestSelectVisible(t *testing.T) {
	for visible, want := range map[string]string{
		"1":           "GPU-00ab",
		"1, 0":        "GPU-00ab GPU-00aa",
		"GPU-00aa,9":  "GPU-00aa", // CUDA stops there
		"0,-1,1":      "GPU-00aa",
		"2":           "MIG-1",
		"MIG-22,junk": "MIG-22",
	} {
		got, err := selectVisible(visible, rack)
		if err != nil || !slices.Equal(got, strings.Fields(want)) {
			t.Errorf("%s: %v, %v", visible, got, err)
		}
	}
	if _, err := selectVisible("9,0", rack); !errors.Is(err, errNoDevice) || !strings.Contains(err.Error(), "CUDA_VISIBLE_DEVICES=9,0: ") {
		t.Errorf("got %v", err)
	}
	if got, err := selectVisible("0", Report{Why: "no driver"}); got != nil || err != nil {
		t.Errorf("%v, %v", got, err)
	}
}

func TestSelectFirst(t *testing.T) {
	for i, want := range []string{"GPU-00aa", "GPU-00ab", "MIG-1", "MIG-2", "", ""} {
		got, err := selectFirst(Report{Available: true, Devices: rack.Devices[i:]})
		if want == "" && !errors.Is(err, errNoDevice) || want != "" && (err != nil || !slices.Equal(got, []string{want})) {
			t.Errorf("%d: %v, %v", i, got, err)
		}
	}
	if got, err := selectFirst(Report{Available: true}); got != nil || err != nil {
		t.Errorf("%v, %v", got, err)
	}
}

func TestSelectHidden(t *testing.T) {
	for _, visible := range []string{"", " ", "-1", "-1,0", "NoDevFiles", "none", "void", ",0"} {
		t.Setenv(visibleDevices, visible)
		for _, spec := range [][]string{nil, {}, {"auto"}} {
			if got, err := Select(spec); got != nil || !errors.Is(err, ErrHidden) || errors.Is(err, errNoDevice) {
				t.Errorf("%q, %v: %v, %v", visible, spec, got, err)
			}
		}
		if got, err := Select([]string{"none"}); got != nil || err != nil {
			t.Errorf("%q, none: %v, %v", visible, got, err)
		}
		if _, err := Select([]string{"GPU-nowhere"}); errors.Is(err, ErrHidden) || err == nil {
			t.Errorf("%q, named: %v", visible, err)
		}
	}
}

func TestEveryDevice(t *testing.T) {
	if got := everyDevice(rack); !slices.Equal(got, strings.Fields("GPU-00aa GPU-00ab MIG-1 MIG-22 MIG-2")) {
		t.Error(got)
	}
}
