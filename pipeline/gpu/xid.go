package gpu

import (
	"fmt"
	"time"
)

// The kinds of an Event: what is at fault.
const (
	kindProgram = "program" // a fault of the program; the device stays healthy
	kindMachine = "machine" // a fault of the device, its links or its firmware
	kindUnknown = "unknown" // no verdict should rest on it alone
)

// Event is something that the driver reported of a device by itself.
type Event struct {
	Time time.Time // when it was received; the driver gives no time
	Xid  uint64    // the driver's number of the error; 0 for other events
	Kind string    // kindProgram, kindMachine or kindUnknown
	Text string
}

// String is the event in words, as "Xid 79: the GPU has fallen off the bus".
func (e Event) String() string {
	text := e.Text
	if text == "" {
		_, text = explainXid(e.Xid)
	}
	if e.Xid == 0 {
		return text
	}
	return fmt.Sprintf("Xid %d: %s", e.Xid, text)
}

// kind returns Kind, or what the table says where a script left it out.
func (e Event) kind() string {
	if e.Kind != "" {
		return e.Kind
	}
	kind, _ := explainXid(e.Xid)
	return kind
}

func newXid(xid uint64, at time.Time) Event {
	kind, text := explainXid(xid)
	return Event{Time: at, Xid: xid, Kind: kind, Text: text}
}

// explainXid returns what is at fault in an Xid, and its meaning. NVIDIA's catalogue calls many numbers ambiguous; they
// are listed here under what is to blame in practice. What the device itself reports (Reading.RecoveryAction, Lost,
// the ECC counts) comes before any number.
func explainXid(xid uint64) (kind, text string) {
	if text, ok := programXids[xid]; ok {
		return kindProgram, text
	}
	if text, ok := machineXids[xid]; ok {
		return kindMachine, text
	}
	return kindUnknown, "an error that kbisect does not know"
}

// programXids leave the device healthy. 45 also follows each kill of a process that had work on the device, so by itself
// it does not even mean a crash.
var programXids = map[uint64]string{
	8:   "the program's work did not end in time",
	11:  "the program sent commands that the device cannot read",
	13:  "the program caused an exception on the device (out of bounds, illegal instruction)",
	31:  "the program touched memory that is not its own",
	43:  "the program's work was stopped after an error in it",
	45:  "the program's work was cleaned up after it was killed or failed",
	68:  "the program caused an exception of the video decoder",
	109: "the program's work did not yield the device in time",
}

// machineXids are faults of the device, its links or its firmware.
var machineXids = map[uint64]string{
	46:  "the GPU stopped processing",
	48:  "uncorrected memory error (ECC)",
	61:  "the GPU's microcontroller halted (breakpoint or warning)",
	62:  "the GPU's microcontroller halted",
	63:  "a bad part of memory is taken out of use",
	64:  "a bad part of memory could not be taken out of use",
	74:  "NVLink error",
	79:  "the GPU has fallen off the bus",
	92:  "many corrected memory errors (ECC)",
	94:  "contained memory error",
	95:  "uncontained memory error",
	119: "the GPU's system processor does not answer",
	120: "the GPU's system processor failed",
	140: "unrecovered memory error",
	143: "the GPU did not start",
	144: "NVLink error (SAW)",
	145: "NVLink error (RLW)",
	146: "NVLink error (TLW)",
	147: "NVLink error (TREX)",
	148: "NVLink error (NVLPW)",
	149: "NVLink error (NETIR)",
	150: "NVLink error (MSE)",
	154: "the driver asks for a recovery of the GPU",
}
