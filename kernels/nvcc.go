package kernels

import "fmt"

// nvcc is a project of CUDA sources that one nvcc command builds. Without dependency files nvcc
// tracks no headers, so every build is a clean one.
func nvcc(p Project) (Plan, error) {
	if len(p.Build) == 0 {
		return Plan{}, fmt.Errorf("kind nvcc needs the compiler's command\nhint: set [build] command, such as [\"nvcc\", \"-O3\", \"-o\", \"bench\", \"bench.cu\"]")
	}
	return Plan{Build: p.Build, Outputs: p.Outputs, Run: p.Run}, nil
}
