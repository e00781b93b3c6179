package cuda

import (
	"bytes"
	"crypto/sha256"
	"debug/elf"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"regexp"
	"slices"
	"strings"

	"github.com/kbisect/kbisect/kernels/lazy"
	"github.com/kbisect/kbisect/kernels/protocol"
)

// DeviceCode is one entry of a fat binary.
type DeviceCode struct {
	Kind       string // elf or ptx
	Arch       int    // 90 for sm_90
	Compressed bool
	Data       []byte // as stored, possibly compressed
}

// maxPieces is the largest number of entries read from one program.
const maxPieces = 1 << 14

// DeviceCodes returns the device code in an object, a library or a program that nvcc built.
// A cubin is device code itself.
func DeviceCodes(program []byte) []DeviceCode {
	if isCubin(program) {
		return []DeviceCode{{Kind: "elf", Arch: cubinArch(program), Data: program}}
	}
	var out []DeviceCode
	magic := []byte{0x50, 0xed, 0x55, 0xba} // little-endian 0xba55ed50, starts the header of a fat binary
	for at := 0; len(out) < maxPieces; {
		i := bytes.Index(program[at:], magic)
		if i < 0 {
			break
		}
		at += i + len(magic)
		if at%8 == 4 { // headers are aligned to 8 bytes; at is behind the magic
			out = append(out, fatbin(program[at-len(magic):])...)
		}
	}
	return out
}

// fatbin reads one fat binary: a header, then entries with a header each.
func fatbin(data []byte) (out []DeviceCode) {
	const header = 16
	if len(data) < header {
		return nil
	}
	le := binary.LittleEndian
	size, offset := le.Uint64(data[8:]), int(le.Uint16(data[6:]))
	if offset < header || offset > len(data) || size > uint64(len(data)-offset) {
		return nil
	}
	data = data[offset : offset+int(size)]
	for len(data) >= 64 && len(out) < maxPieces {
		kind, head, size := le.Uint16(data), uint64(le.Uint32(data[4:])), le.Uint64(data[8:])
		if head < 64 || head > uint64(len(data)) || size > uint64(len(data))-head {
			break
		}
		piece := DeviceCode{
			Kind: "elf", Arch: int(le.Uint32(data[28:])),
			Compressed: le.Uint64(data[40:])&compressedFlags != 0,
			Data:       data[head : head+size],
		}
		if kind == 1 {
			piece.Kind = "ptx"
		}
		out = append(out, piece)
		data = data[head+size:]
	}
	return out
}

// compressedFlags mark an entry compressed with LZ4 or Zstandard.
const compressedFlags = 0x2000 | 0x8000

// emCUDA is the ELF machine of device code (EM_CUDA).
const emCUDA = 190

func isCubin(data []byte) bool {
	return len(data) >= 20 && bytes.HasPrefix(data, []byte(elf.ELFMAG)) && binary.LittleEndian.Uint16(data[18:]) == emCUDA
}

// cubinArch reads the architecture from the flags of the file: the low byte, or the second
// byte from ABI version 8 on.
func cubinArch(data []byte) int {
	if len(data) < 52 {
		return 0
	}
	flags := binary.LittleEndian.Uint32(data[48:])
	if data[8] >= 8 { // version of the ABI
		return int(flags >> 8 & 0xff)
	}
	return int(flags & 0xff)
}

// cubinDigest is a digest of the code, constants and initialised data of a cubin. It leaves
// out debug information, symbol tables and names that depend on the folder of the source.
func cubinDigest(data []byte) (string, error) {
	h := sha256.New()
	if err := sections(h, data, nil); err != nil {
		return "", fmt.Errorf("cubin: %w", err)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// Artefact identifies what a linked program or library does by two digests: of its device
// code, "" if it has none, and of its host code and data, "" for a cubin. Debug information,
// identifiers made up by tools and the folder of the build do not count. Programs that agree
// in both behave the same; equal device code may be launched differently by other host code.
func Artefact(program []byte) (device, host string, err error) {
	codes := DeviceCodes(program)
	if device, err = deviceDigest(codes); err != nil {
		return "", "", err
	}
	if isCubin(program) {
		return device, "", nil
	}
	h := sha256.New()
	if err := sections(h, program, hostNoise()); err != nil {
		return "", "", err
	}
	return device, hex.EncodeToString(h.Sum(nil)), nil
}

// deviceDigest combines the digests of all entries, in any order. PTX counts only if it is
// newer than all machine code, as only then a device compiles it.
func deviceDigest(codes []DeviceCode) (string, error) {
	newest := 0
	for _, c := range codes {
		if c.Kind == "elf" {
			newest = max(newest, c.Arch)
		}
	}
	var all []string
	for _, c := range codes {
		if c.Kind == "ptx" && c.Arch <= newest {
			continue
		}
		d := fmt.Sprintf("%s %d %x", c.Kind, c.Arch, sha256.Sum256(pathNoise().ReplaceAll(c.Data, []byte("${1}00000000_"))))
		if c.Kind == "elf" && !c.Compressed {
			sum, err := cubinDigest(c.Data)
			if err != nil {
				return "", err
			}
			d = fmt.Sprintf("cubin %d %s", c.Arch, sum)
		}
		all = append(all, d)
	}
	if len(all) == 0 {
		return "", nil
	}
	slices.Sort(all)
	return fmt.Sprintf("%x", sha256.Sum256([]byte(strings.Join(all, "\n")))), nil
}

// hostNoise matches sections of a host program that do not change what it does, and those
// that hold the device code.
var hostNoise = lazy.Pattern(`^(\.nv_fatbin|__nv_relfatbin|\.note\..*|\.comment|\.gnu_debuglink|\.gnu_debugdata|__nv_module_id|\.nv_module_id)$`)

// debugSection matches sections for debuggers and linkers in any ELF file.
var debugSection = lazy.Pattern(`^(\.rela?)?(\.z?debug_.*|\.nv_debug_.*)$|^\.(shstrtab|strtab|symtab)$|^\.note\.nv\..*$|^\.nv\.callgraph$`)

// maxSections is the largest number of sections in a file.
const maxSections = 1 << 16

// sections hashes the relevant sections of an ELF file, sorted by name. In a host program
// (noise is not nil) only loaded sections are relevant. A panic of debug/elf on a
// malformed file becomes an error.
func sections(h hash.Hash, data []byte, noise *regexp.Regexp) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("not an ELF file: %v", r)
		}
	}()
	if isCubin(data) && len(data) >= 24 { // the version of a cubin is that of its toolkit, which debug/elf rejects
		data = slices.Clone(data)
		binary.LittleEndian.PutUint32(data[20:], uint32(elf.EV_CURRENT))
	}
	f, err := elf.NewFile(bytes.NewReader(data))
	if err != nil {
		return err
	}
	if len(f.Sections) > maxSections {
		return errors.New("too many sections")
	}
	fmt.Fprintln(h, f.Machine, f.Type)
	if noise != nil && f.Type == elf.ET_REL {
		h.Write(data) // before linking, calls have no addresses yet: every byte counts
		return nil
	}
	sorted := slices.Clone(f.Sections)
	slices.SortStableFunc(sorted, func(a, b *elf.Section) int { return strings.Compare(kernelName(a.Name), kernelName(b.Name)) })
	for _, s := range sorted {
		host := noise != nil
		if debugSection().MatchString(s.Name) || host && (noise.MatchString(s.Name) || s.Flags&elf.SHF_ALLOC == 0) {
			continue
		}
		if err := section(h, data, s); err != nil {
			return fmt.Errorf("section %s: %w", protocol.Plain(s.Name, 80), err)
		}
	}
	return nil
}

// section hashes the header and the content of a section. Offsets are not part of it: they move with sections that do
// not count.
func section(h hash.Hash, data []byte, s *elf.Section) error {
	fmt.Fprintln(h, kernelName(s.Name), s.Type, uint64(s.Flags), s.Size)
	if s.Type == elf.SHT_NOBITS {
		return nil
	}
	if s.Offset > uint64(len(data)) || s.FileSize > uint64(len(data))-s.Offset {
		return io.ErrUnexpectedEOF
	}
	h.Write(pathNoise().ReplaceAll(data[s.Offset:s.Offset+s.FileSize], []byte("${1}00000000_")))
	return nil
}
