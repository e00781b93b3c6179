package kernels

// makePlan is a project with a Makefile. make rebuilds what is out of date by its rules,
// so a build may start from the last one unless the rules themselves changed.
func makePlan(p Project) (Plan, error) {
	if len(p.Build) == 0 {
		p.Build = []string{"make"}
	}
	return Plan{
		Build: p.Build, Outputs: p.Outputs, Run: p.Run,
		Incremental: true,
		BuildFiles:  []string{"Makefile", "makefile", "GNUmakefile", "*.mk", "configure", "configure.ac", "*.in"},
	}, nil
}
