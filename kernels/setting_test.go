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
	for _, assign := range []string{"mma", "mma=", "other=1", "mma=1,", "=1"} {
		if _, wrong := ParseSettings(assign, flags); wrong == "" {
			t.Errorf("%q was read", assign)
		}
	}
	for assign, want := range map[string]struct{ compile, args, env []string }{
		"mma=unset,fast=off,tile=unset,quick=no,env=unset": {},
		"mma=1,fast=on,tile=8,quick=yes,env=2":             {[]string{"-DMMA=1", "--use_fast_math", "-DT=8"}, []string{"--quick"}, []string{"E=2"}},
		"fast=other":                                       {env: []string{"E=user's"}},
		"mma=off":                                          {compile: []string{"-DMMA=off"}, env: []string{"E=user's"}},
	} {
		s, wrong := ParseSettings(assign, flags)
		if wrong != "" {
			t.Fatal(wrong)
		}
		if !slices.Equal(s.Compile(), want.compile) || !slices.Equal(s.Args(), want.args) || !slices.Equal(s.Apply([]string{"A=1", "E2=2", "E=user's"}), append([]string{"A=1", "E2=2"}, want.env...)) {
			t.Errorf("%s: %q %q %q", assign, s.Compile(), s.Args(), s.Apply(nil))
		}
	}
}
