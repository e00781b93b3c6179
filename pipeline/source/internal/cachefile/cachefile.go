// Package cachefile has files in which a process leaves to the next one what that could find out again: to lose one
// costs time only.
package cachefile

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"os"
	"path/filepath"
)

// Read returns what was written to a file, nothing where it is damaged.
func Read(file string) string {
	data, err := os.ReadFile(file)
	at := len(data) - 4
	if err != nil || at < 0 || sum(data[:at]) != binary.BigEndian.Uint32(data[at:]) {
		return ""
	}
	return string(data[:at])
}

// Write replaces a file, whole or not at all, where its folder exists.
func Write(file string, data []byte) {
	t, err := os.CreateTemp(filepath.Dir(file), ".kept-*")
	if err != nil {
		return
	}
	_, err = t.Write(binary.BigEndian.AppendUint32(data, sum(data)))
	if err = errors.Join(err, t.Close()); err == nil {
		err = os.Rename(t.Name(), file)
	}
	if err != nil {
		os.Remove(t.Name())
	}
}

// sum guards against accidents, not against lies.
func sum(data []byte) uint32 { return crc32.Checksum(data, crc32.MakeTable(crc32.Castagnoli)) }
