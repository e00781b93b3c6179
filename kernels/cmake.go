package kernels

// cmakePlan is a CMake project built in the folder build. CUDAARCHS makes CMake compile
// for the device that runs the trials, unless the project names its own architectures.
func cmakePlan(p Project) (Plan, error) {
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

// CMakeScript is a shell script that configures and builds a target, or all targets
// for "". It prefers ninja, but a folder that is already configured keeps its generator,
// because CMake refuses to change it.
func CMakeScript(target string) string {
	script := "test -e build/CMakeCache.txt || ! command -v ninja >/dev/null || export CMAKE_GENERATOR=Ninja; " +
		"cmake -S . -B build -DCMAKE_BUILD_TYPE=Release && cmake --build build --parallel 2"
	if target != "" {
		script += " --target " + ShellWords(target)
	}
	return script
}
