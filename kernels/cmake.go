package kernels

// cmake is a project configured by CMake into the folder build: with ninja, where there is one, and
// for the device, where the project leaves that open.
func cmake(p Project) (Plan, error) {
	if len(p.Build) == 0 {
		p.Build = []string{"sh", "-c", CMakeScript("")}
	}
	plan := Plan{
		Build: p.Build, Outputs: p.Outputs, Run: p.Run,
		Incremental: true,
		BuildFiles:  []string{"CMakeLists.txt", "*.cmake", "CMakePresets.json", "*.in"},
	}
	if arch, ok := archNumber(p.Device); ok {
		plan.Env = []string{"CUDAARCHS=" + arch + "-real"}
	}
	return plan, nil
}

// CMakeScript is a line of shell that configures and builds; an empty target stands for all. A folder
// that was configured before keeps its generator.
func CMakeScript(target string) string {
	script := "test -e build/CMakeCache.txt || ! command -v ninja >/dev/null || export CMAKE_GENERATOR=Ninja; " +
		"cmake -S . -B build -DCMAKE_BUILD_TYPE=Release && cmake --build build --parallel 2"
	if target != "" {
		script += " --target " + shellWords([]string{target})
	}
	return script
}
