package kernels

// cmake is a project configured by CMake into the folder build.
func cmake(p Project) (Plan, error) {
	if len(p.Build) == 0 {
		p.Build = []string{"sh", "-c", "cmake -S . -B build -DCMAKE_BUILD_TYPE=Release && cmake --build build --parallel 2"}
	}
	return Plan{
		Build: p.Build, Outputs: p.Outputs, Run: p.Run,
		Incremental: true,
		BuildFiles:  []string{"CMakeLists.txt", "*.cmake", "CMakePresets.json", "*.in"},
	}, nil
}
