package kernels

// commandPlan runs the commands that the user wrote. Nothing is known about the
// build tool, so every build starts clean.
func commandPlan(p Project) (Plan, error) {
	return Plan{Build: p.Build, Outputs: p.Outputs, Run: p.Run}, nil
}
