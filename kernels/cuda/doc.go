// Package cuda reads what NVIDIA's tools and files say about device code: cubins and
// fat binaries ([ReadCubin] and friends compare machine code without debug
// information), ptxas' resource usage, SASS listings, Nsight Compute's CSV, the
// profiler traces of PyTorch, and the occupancy that follows from a kernel's
// resources.
//
// All functions are pure readers; the tools are run by others.
package cuda
