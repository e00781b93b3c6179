package kernels

import (
	"slices"
	"testing"
)

// TestSettingsOfSwitches: what is passed at which value.
func TestSettingsOfSwitches(t *testing.T) {
	flags := []Flag{
		{Name: "mma", Define: "MMA"}, {Name: "fast", Option: "--use_fast_math", On: "on"}, {Name: "tile", Option: "-DT={value}"},
		{Name: "quick", Arg: "--quick", On: "yes"}, {Name: "env", Env: "E"},
	}
	for assign, want := range map[string]struct{ compile, args, env []string }{
		"mma=unset,fast=off,tile=unset,quick=no,env=unset": {},
		"mma=1,fast=on,tile=8,quick=yes,env=2":             {[]string{"-DMMA=1", "--use_fast_math", "-DT=8"}, []string{"--quick"}, []string{"E=2"}},
		"fast=other":                                       {},
		"mma=off":                                          {compile: []string{"-DMMA=off"}},
	} {
		s, wrong := ParseSettings(assign, flags)
		if wrong != "" {
			t.Fatal(wrong)
		}
		if !slices.Equal(s.Compile(), want.compile) || !slices.Equal(s.Args(), want.args) || !slices.Equal(s.Env(), want.env) {
			t.Errorf("%s: %q %q %q", assign, s.Compile(), s.Args(), s.Env())
		}
	}
}
