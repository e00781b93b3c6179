// Package cuda reads what NVIDIA's tools and PyTorch say about device code: the code in a
// program ([DeviceCodes], [Artefact]), what it needs ([Ptxas], [Resources]), its machine
// code ([SASS], [Mix]), how it was launched and how long that took ([NcuCSV],
// [OpenTraces], [Launched]), and how much of a device it can fill ([Occupy]).
//
// Names and digests leave out debug information and the folder of the build, so that two
// builds of the same source compare as equal.
//
// All functions are pure readers of bounded input. Others run the tools; the package
// must not know when or why.
package cuda
