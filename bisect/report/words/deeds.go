package words

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kbisect/kbisect/bisect"
)

// Doing is a phase as what a program does in it.
func Doing(phase string, whole bool) string {
	switch {
	case whole || phase == "" || phase == "run":
		return "the run"
	case phase == "load":
		return "loading"
	case phase == "measure":
		return "measuring"
	case phase == "warmup":
		return "the warm-up"
	case slices.Contains([]string{"build", "capture", "check", "teardown"}, phase):
		return "the " + phase
	}
	return "phase " + phase
}

// Did says what a culprit of a class does, as the rest of a sentence that begins with its name. e is its effect on a
// metric, nil for a failure.
func Did(class bisect.Class, phase string, e *bisect.Effect) string {
	switch {
	case e != nil && e.Exact != nil && e.Exact.Value < e.Exact.Parent:
		return "lowers " + exact(*e, " to %s from %s")
	case e != nil && e.Exact != nil:
		return "raises " + exact(*e, " to %s from %s")
	case e != nil:
		return fmt.Sprintf("makes %s %s", quoted(*e), moved(*e))
	case class == bisect.Improved:
		return "makes it faster"
	case class == bisect.Slow:
		return "makes it slower"
	case class == bisect.BuildFailed:
		return "breaks the build"
	case class == bisect.Wrong:
		return "makes " + Doing(phase, false) + " fail"
	case class == bisect.Crash:
		return "makes " + Doing(phase, false) + " crash"
	}
	return "introduces " + Failure(class, phase)
}

// Failure is a way to fail, with its article; the phase counts only for a timeout.
func Failure(class bisect.Class, phase string) string {
	switch {
	case class == bisect.Timeout && phase != "":
		return "a timeout in " + phase
	case class == bisect.Timeout:
		return "a timeout"
	case class == bisect.Wrong:
		return "a failure"
	case class == bisect.Crash:
		return "a crash"
	case class == bisect.BuildFailed:
		return "a build failure"
	case class == bisect.Slow:
		return "a slowdown"
	case class == bisect.Improved:
		return "an improvement"
	}
	return string(class)
}

// quoted is the metric with its case, set off from the words around it.
func quoted(e bisect.Effect) string {
	if e.Case == "" {
		return "`" + e.Metric + "`"
	}
	return "`" + e.Metric + "` of " + e.Case
}

// moved is how far a metric moved: slower or faster where it is a time, else higher or lower, and whether that is
// worse. Which names are times is a convention of the trial protocol ("time", "wall", "phase.").
func moved(e bisect.Effect) string {
	up, down := "higher (worse)", "lower (better)"
	if e.Higher {
		up, down = "higher (better)", "lower (worse)"
	}
	if !e.Higher && e.Metric == "time" || e.Metric == "wall" || strings.HasPrefix(e.Metric, "phase.") {
		up, down = "slower", "faster"
	}
	switch amount := Change(e.Ratio); {
	case e.Ratio < 1:
		return strings.TrimPrefix(amount, "-") + " " + down
	default:
		return strings.TrimPrefix(amount, "+") + " " + up
	}
}

// Effect is a metric with its change and the interval of it, and which values are better.
func Effect(e bisect.Effect) string {
	if e.Exact != nil {
		return exact(e, " %s, parent %s")
	}
	by := ""
	if e.Statistic != "" {
		by = ", by the " + e.Statistic + " of each launch's samples"
	}
	return fmt.Sprintf("%s %s, %s%s", e.Name(), Interval(e.Ratio, e.Low, e.High, 0.95), Better(e.Higher), by)
}

// exact writes the two numbers of a metric without noise: the value, then the parent's.
func exact(e bisect.Effect, format string) string {
	x := e.Exact
	better := Better(e.Higher)
	if x.Parent != 0 && x.Value != 0 { // else the ratio says nothing
		better = Change(e.Ratio) + ", " + better
	}
	return fmt.Sprintf("%s"+format+" (%s)", e.Name(), fmt.Sprintf("%.8g", x.Value), fmt.Sprintf("%.8g", x.Parent), better)
}
