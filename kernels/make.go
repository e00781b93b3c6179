package kernels

// makefile is a project built by make, which rebuilds what its rules say is out of date.
func makefile(p Project) (Plan, error) {
	if len(p.Build) == 0 {
		p.Build = []string{"make"}
	}
	return Plan{
		Build: p.Build, Outputs: p.Outputs, Run: p.Run,
		Incremental: true,
		BuildFiles:  []string{"Makefile", "makefile", "GNUmakefile", "*.mk", "configure", "configure.ac", "*.in"},
	}, nil
}
