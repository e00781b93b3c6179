package cuda

// Occupancy is how much of a multiprocessor the blocks of a kernel can fill at most.
type Occupancy struct {
	Share  float64 // of the warps that fit, 0 to 1
	Blocks int     // resident at the same time
	Limit  string  // the resource that runs out first
}

// The resources that limit the occupancy. Of several equal limits, the first is reported.
const (
	limitWarps     = "warps"
	limitBlocks    = "blocks"
	limitRegisters = "registers"
	limitShared    = "shared memory"
)

// multiprocessor holds the capacity of a multiprocessor (CUDA C++ Programming Guide,
// "Technical Specifications per Compute Capability").
type multiprocessor struct {
	warps, blocks int
	shared        int // bytes
	unit          int // allocation unit of shared memory, bytes
	reserved      int // shared memory that the system takes per block, bytes
}

// Limits that all architectures share. Registers are allocated per warp in units, to four
// warps at a time.
const (
	registersAll  = 64 << 10
	registersUnit = 256
	registersMost = 255
	warpsUnit     = 4
	warpSize      = 32
	threadsMost   = 1024
)

// multiprocessors knows the capacities by compute capability.
func multiprocessors(capability string) (multiprocessor, bool) {
	m, ok := map[string]multiprocessor{
		"7.0":  {64, 32, 96 << 10, 256, 0},
		"7.5":  {32, 16, 64 << 10, 256, 0},
		"8.0":  {64, 32, 164 << 10, 128, 1 << 10},
		"8.6":  {48, 16, 100 << 10, 128, 1 << 10},
		"8.7":  {48, 16, 164 << 10, 128, 1 << 10},
		"8.9":  {48, 24, 100 << 10, 128, 1 << 10},
		"9.0":  {64, 32, 228 << 10, 128, 1 << 10},
		"10.0": {64, 32, 228 << 10, 128, 1 << 10},
		"12.0": {48, 24, 100 << 10, 128, 1 << 10},
	}[capability]
	return m, ok
}

// Occupy computes the theoretical occupancy of a kernel for a compute capability such as
// "9.0" from its registers per thread, its shared memory per block (static and dynamic, in
// bytes) and its threads per block, as the CUDA Occupancy Calculator does. ok is false if the
// capability is unknown or no block fits.
func Occupy(capability string, registers, shared, threads int) (o Occupancy, ok bool) {
	m, known := multiprocessors(capability)
	if !known || threads <= 0 || threads > threadsMost || registers < 0 || registers > registersMost || shared < 0 {
		return o, false
	}
	warps := (threads + warpSize - 1) / warpSize
	limits := []struct {
		name   string
		blocks int
	}{{limitWarps, m.warps / warps}, {limitBlocks, m.blocks}}
	if registers > 0 {
		fit := registersAll / up(registers*warpSize, registersUnit) / warpsUnit * warpsUnit
		limits = append(limits, struct {
			name   string
			blocks int
		}{limitRegisters, fit / warps})
	}
	if taken := up(shared+m.reserved, m.unit); taken > 0 {
		limits = append(limits, struct {
			name   string
			blocks int
		}{limitShared, m.shared / taken})
	}
	o.Blocks = m.warps + 1
	for _, l := range limits {
		if l.blocks < o.Blocks {
			o.Blocks, o.Limit = l.blocks, l.name
		}
	}
	o.Share = float64(o.Blocks*warps) / float64(m.warps)
	return o, o.Blocks > 0
}

// up rounds n up to a multiple of unit.
func up(n, unit int) int { return (n + unit - 1) / unit * unit }
