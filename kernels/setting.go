package kernels

import (
	"cmp"
	"slices"
	"strings"
)

// Flag is a switch of a project. Its value reaches the program in exactly one of four ways.
type Flag struct {
	Name   string
	Env    string // environment variable
	Define string // macro, -DDefine=VALUE
	Arg    string // argument of the run command, with {value}
	Option string // compiler option, with {value}
	On     string // the one value at which an Arg or Option without {value} is passed
}

// Setting is a flag with a value.
type Setting struct {
	Flag  Flag
	Value string
}

// Settings are flags with values, in the order of the configuration.
type Settings []Setting

// Unset is the value of a flag that is not passed at all.
const Unset = "unset"

// valueMark is replaced by the value in an argument or option.
const valueMark = "{value}"

// String formats settings as "compile=off,graph=on".
func (s Settings) String() string {
	var parts []string
	for _, x := range s {
		parts = append(parts, x.Flag.Name+"="+x.Value)
	}
	return strings.Join(parts, ",")
}

// Apply returns an environment with the variables of the settings. A variable at [Unset] is taken out, even if the
// user's own environment holds it.
func (s Settings) Apply(env []string) []string {
	out := slices.Clone(env)
	for _, x := range s {
		if x.Flag.Env == "" {
			continue
		}
		out = slices.DeleteFunc(out, func(v string) bool { return strings.HasPrefix(v, x.Flag.Env+"=") })
		if x.Value != Unset {
			out = append(out, x.Flag.Env+"="+x.Value)
		}
	}
	return out
}

// Args returns the arguments to append to the run command.
func (s Settings) Args() []string {
	return s.expand(func(f Flag) string { return f.Arg })
}

// Compile returns the macros and options to pass to every compiler.
func (s Settings) Compile() []string {
	return s.expand(func(f Flag) string {
		if f.Define != "" {
			return "-D" + f.Define + "=" + valueMark
		}
		return f.Option
	})
}

// expand returns what text gives for each flag, with the value filled in. A text without a place for the value is used
// only at the value Flag.On.
func (s Settings) expand(text func(Flag) string) []string {
	var out []string
	for _, x := range s {
		t := text(x.Flag)
		if t == "" || x.Value == Unset || !strings.Contains(t, valueMark) && x.Value != x.Flag.On {
			continue
		}
		out = append(out, strings.ReplaceAll(t, valueMark, x.Value))
	}
	return out
}

// ParseSettings reads "compile=off,graph=on" with the flags of a project. On failure it
// returns the first invalid part instead of an error, so that the caller can phrase it.
func ParseSettings(assign string, flags []Flag) (out Settings, wrong string) {
	if assign == "" {
		return nil, ""
	}
	for part := range strings.SplitSeq(assign, ",") {
		name, value, ok := strings.Cut(part, "=")
		i := slices.IndexFunc(flags, func(f Flag) bool { return f.Name == name })
		if !ok || i < 0 || value == "" {
			return nil, cmp.Or(part, assign)
		}
		out = append(out, Setting{flags[i], value})
	}
	return out, ""
}
