package kernels

import (
	"slices"
	"strings"
)

// Flag is a switch of a project, and how a value of it reaches the program: by exactly one of the four.
type Flag struct {
	Name   string
	Env    string // an environment variable
	Define string // a macro, -DDefine=VALUE
	Arg    string // an argument of the run command, with {value}
	Option string // an option of the compiler, with {value}
	On     string // where Arg or Option have no {value}: the value at which they are passed, and at no other
}

// Setting is a flag at a value.
type Setting struct {
	Flag  Flag
	Value string
}

// Settings are flags at values, in the order of the configuration.
type Settings []Setting

// Unset is a value of a flag that is not passed on at all: no variable, no macro, no argument.
const Unset = "unset"

// valueMark stands for the value in an argument or an option.
const valueMark = "{value}"

// String writes "compile=off,graph=on".
func (s Settings) String() string {
	var parts []string
	for _, x := range s {
		parts = append(parts, x.Flag.Name+"="+x.Value)
	}
	return strings.Join(parts, ",")
}

// Env is what the environment of the program has more.
func (s Settings) Env() []string {
	var out []string
	for _, x := range s {
		if x.Flag.Env != "" && x.Value != Unset {
			out = append(out, x.Flag.Env+"="+x.Value)
		}
	}
	return out
}

// Args is what the run command has more.
func (s Settings) Args() []string {
	return s.filled(func(f Flag) string { return f.Arg })
}

// Compile is what every compiler is told besides: macros and options.
func (s Settings) Compile() []string {
	return s.filled(func(f Flag) string {
		if f.Define != "" {
			return "-D" + f.Define + "=" + valueMark
		}
		return f.Option
	})
}

func (s Settings) filled(text func(Flag) string) []string {
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

// ParseSettings reads an assignment, "compile=off,graph=on", against the flags of a project. What is
// wrong with a part of it is returned as that part.
func ParseSettings(assign string, flags []Flag) (out Settings, wrong string) {
	if assign == "" {
		return nil, ""
	}
	for part := range strings.SplitSeq(assign, ",") {
		name, value, ok := strings.Cut(part, "=")
		i := slices.IndexFunc(flags, func(f Flag) bool { return f.Name == name })
		if !ok || i < 0 || value == "" {
			return nil, part
		}
		out = append(out, Setting{flags[i], value})
	}
	return out, ""
}
