//go:build !(cgo && linux)

package gpu

import "fmt"

const whyNone = "built without NVML (needs Linux and cgo)"

func probe() Report { return Report{Why: whyNone} }

func open(selector string) (reader, error) {
	return nil, fmt.Errorf("open device %q: %w: %s\nhint: build kbisect with CGO_ENABLED=1 and a C compiler to read devices", selector, ErrUnavailable, whyNone)
}
