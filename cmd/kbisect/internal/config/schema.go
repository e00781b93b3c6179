package config

import (
	"cmp"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/kbisect/kbisect/cmd/kbisect/internal/wording"
	"github.com/kbisect/kbisect/kernels"
)

// The kinds of project.
const (
	KindCommand   = "command"
	KindNvcc      = "nvcc"
	KindMake      = "make"
	KindCMake     = "cmake"
	KindTorch     = "torch"
	KindKernelbot = "kernelbot"
)

func Kinds() []string {
	return []string{KindCommand, KindNvcc, KindMake, KindCMake, KindTorch, KindKernelbot}
}

func metricSources() []string {
	return []string{"protocol", "wall", "phase", "regex", "nvbench", "cutlass", "popcorn", "static"}
}

func PhaseNames() []string {
	return []string{"load", "warmup", "capture", "check", "measure", "teardown"}
}

// schema lists the keys of every table but [run.limits], whose keys are phases.
func schema() map[string][]string {
	metric := []string{"name", "unit", "better", "from", "pattern", "file", "case"}
	return map[string][]string{
		"":           {"version", "kind", "paths", "task", "build", "run", "metric", "metrics", "judge", "device", "cost", "flag", "hypothesis"},
		"task":       {"problem", "mode", "submission", "reference", "cases"},
		"build":      {"command", "limit", "outputs", "incremental", "sources", "options"},
		"run":        {"command", "limit", "limits", "files", "caches", "probe"},
		"metric":     metric,
		"metrics":    metric,
		"judge":      {"effect", "error"},
		"device":     {"gpus"},
		"cost":       {"gpu_hour"},
		"flag":       {"name", "values", "bad", "ordered", "env", "define", "arg", "option", "requires", "excludes", "parts"},
		"hypothesis": {"name", "claim"},
	}
}

func (t tableReader) known(table string) {
	s := schema()
	t.unknown(s[table], s)
}

func (r *configReader) config(root map[string]any) *Config {
	t := tableReader{r: r, values: root}
	t.known("")
	c := &Config{Path: r.file}
	c.Version = t.version()
	c.Kind = t.choice("kind", Kinds())
	c.Paths = t.insidePaths("paths", `an array of paths, as ["kernels/", "bench.py"]`)
	if x, ok := t.table("task"); ok {
		c.Task = x.task(c.Kind)
	}
	if b, ok := t.table("build"); ok {
		c.Build = b.build(c.Kind)
	}
	if x, ok := t.table("run"); ok {
		c.Run = x.run()
	}
	c.Metrics = t.metrics()
	if j, ok := t.table("judge"); ok {
		c.Judge = j.judge()
	}
	if d, ok := t.table("device"); ok {
		d.known("device")
		c.Device.GPUs = d.gpus()
	}
	if p, ok := t.table("cost"); ok {
		c.Cost = p.cost()
	}
	c.Flags = t.flags()
	c.Hypotheses = t.hypotheses(c.Flags)
	c.Warnings = r.warnings
	return c
}

func (t tableReader) version() int {
	v, ok := t.values["version"]
	if !ok {
		return 0
	}
	n, ok := v.(int64)
	switch {
	case !ok:
		t.wrongType("version", "the integer 1")
	case n != 1:
		t.errorf("version", "%d is not known; this kbisect reads version = 1", n)
	}
	return int(n)
}

// insidePaths reads paths that must stay inside the repository.
func (t tableReader) insidePaths(key, want string) []string {
	list := t.strs(key, want)
	for i, p := range list {
		if p == "" || path.IsAbs(p) || slices.Contains(strings.Split(p, "/"), "..") {
			t.r.add(t.at(key, indexOf(i)), "%q leads out of the repository; write paths relative to its top, without \"..\"", p)
		}
	}
	return list
}

func (t tableReader) build(kind string) BuildConfig {
	t.known("build")
	for _, key := range []string{"sources", "options"} {
		switch {
		case t.has(key) && kind != KindNvcc:
			t.errorf(key, "belongs to kind = %q; this is kind %q", KindNvcc, cmp.Or(kind, KindCommand))
		case t.has(key) && t.has("command"):
			t.errorf(key, "command says already how to build; leave one of them out")
		}
	}
	return BuildConfig{
		Command:     t.command("command"),
		Limit:       t.duration("limit"),
		Outputs:     t.insidePaths("outputs", `an array of paths, as ["bench"]`),
		Incremental: t.boolean("incremental"),
		Sources:     t.insidePaths("sources", `an array of paths, as ["bench.cu"]`),
		Options:     t.strs("options", `an array of options of nvcc, as ["-O3", "-lineinfo"]`),
	}
}

func (t tableReader) run() RunConfig {
	t.known("run")
	c := RunConfig{
		Command: t.command("command"), Limit: t.duration("limit"),
		Files:  t.insidePaths("files", `an array of paths, as ["bench.py"]`),
		Caches: t.choice("caches", []string{"auto", "cold", "warm"}), Probe: t.choice("probe", []string{"auto", "on", "off"}),
	}
	if limits, ok := t.table("limits"); ok {
		c.Limits = limits.limits()
	}
	return c
}

func (t tableReader) limits() map[string]kernels.Limit {
	out := make(map[string]kernels.Limit, len(t.values))
	for name, v := range t.values {
		s, ok := v.(string)
		switch {
		case name == "build":
			t.errorf(name, "the build has its own limit: write limit in [build]")
			continue
		case !ok:
			t.wrongType(name, `a duration in quotes, as "60s", or a multiple of the good end, as "4x"`)
			continue
		case !isName(name, "", "_.:/-"):
			t.errorf(name, "%q is no name of a phase; use letters, digits, and - _ . : /", name)
			continue
		}
		l, err := parseLimit(s)
		if err != nil {
			t.errorf(name, "%v", err)
			continue
		}
		if near := wording.Nearest(name, PhaseNames()); near != "" && near != name {
			t.r.warn(t.at(name), "taken as a phase of the project's own; the standard one is %q", near)
		}
		out[name] = l
	}
	slices.Sort(t.r.warnings)
	return out
}

func (t tableReader) metrics() []Metric {
	if t.has("metric") && t.has("metrics") {
		t.errorf("metrics", "[metric] and [[metrics]] exclude each other; write every metric as [[metrics]]")
	}
	var out []Metric
	if m, ok := t.table("metric"); ok {
		m.known("metric")
		out = append(out, m.metric())
	}
	seen := map[string]bool{}
	for _, m := range t.tables("metrics") {
		m.known("metrics")
		metric := m.metric()
		if id := metric.WithDefaults().Name + "\x00" + metric.Case; seen[id] {
			m.errorf("name", "the metric %q is there twice", metric.WithDefaults().Name)
		} else {
			seen[id] = true
		}
		out = append(out, metric)
	}
	return out
}

func (t tableReader) metric() Metric {
	m := Metric{
		Name:    t.str("name"),
		Unit:    t.str("unit"),
		Better:  t.choice("better", []string{"lower", "higher"}),
		From:    t.choice("from", metricSources()),
		Pattern: t.str("pattern"),
		File:    t.file("file"),
		Case:    t.str("case"),
	}
	if _, err := ParseUnit(m.Unit); err != nil {
		t.errorf("unit", "%v", err)
	}
	switch _, given := t.values["pattern"].(string); {
	case m.From == "regex" && !t.has("pattern"):
		t.errorf("from", `regex needs a pattern, as pattern = 'time (?P<value>[0-9.]+) (?P<unit>ms|us)'`)
	case given && m.From != "regex" && (m.From != "" || !t.has("from")):
		t.errorf("pattern", `only from = "regex" has a pattern`)
	case m.Pattern != "":
		t.checkPattern(m.Pattern)
	}
	t.checkFile(m)
	return m
}

// checkFile asks for the file of results where the source is one.
func (t tableReader) checkFile(m Metric) {
	switch {
	case m.From == "nvbench" && !t.has("file"):
		t.errorf("from", `nvbench needs the file that the run writes, as file = "result.json" with --jsonbin result.json in [run] command`)
	case t.has("file") && m.From != "nvbench" && m.From != "cutlass" && (m.From != "" || !t.has("from")):
		t.errorf("file", `only from = "nvbench" and from = "cutlass" have a file`)
	}
}

func (t tableReader) checkPattern(pattern string) {
	re, err := regexp.Compile(pattern)
	if err != nil {
		t.errorf("pattern", "not a regular expression (Go's syntax, as grep -E without back references): %v", err)
		return
	}
	if re.SubexpIndex("value") < 0 {
		t.errorf("pattern", `no group named "value"; put (?P<value>…) around the number`)
	}
}

func (t tableReader) judge() JudgeConfig {
	t.known("judge")
	var c JudgeConfig
	if t.has("effect") {
		c.Effect = t.effect()
	}
	if t.has("error") {
		p, ok := t.number("error", "a number, as 0.01")
		if ok && !(p > 0 && p < 0.5) {
			t.errorf("error", "%g is no chance to be wrong; it must be above 0 and below 0.5, as 0.01", p)
		}
		c.Error = p
	}
	return c
}

func (t tableReader) effect() float64 {
	var f float64
	var err error
	if s, ok := t.values["effect"].(string); ok {
		f, err = ParseEffect(s)
	} else {
		f, ok = t.number("effect", `a share, as "3%" or 0.03`)
		if !ok {
			return 0
		}
		err = checkEffect(f)
	}
	if err != nil {
		t.errorf("effect", "%v", err)
	}
	return f
}

func gpuName() *regexp.Regexp { return regexp.MustCompile(`^([0-9]{1,4}|(GPU|MIG)-[0-9A-Za-z/-]+)$`) }

func (t tableReader) gpus() []string {
	const want = `"none", "auto", an index, a UUID, or an array of these`
	var list []string
	switch v := t.values["gpus"].(type) {
	case nil:
		return nil
	case int64:
		list = []string{strconv.FormatInt(v, 10)}
	case string:
		if v == "none" || v == "auto" {
			return []string{v}
		}
		for _, part := range strings.Split(v, ",") {
			list = append(list, strings.TrimSpace(part))
		}
	case []any:
		for _, e := range v {
			switch e := e.(type) {
			case int64:
				list = append(list, strconv.FormatInt(e, 10))
			case string:
				list = append(list, e)
			default:
				t.wrongType("gpus", want)
				return nil
			}
		}
		if len(v) == 0 {
			t.errorf("gpus", `empty; write "none" to use no device`)
		}
	default:
		t.wrongType("gpus", want)
		return nil
	}
	for i, g := range list {
		if !gpuName().MatchString(g) {
			t.errorf("gpus", "%q names no device%s; wanted is %s", g, wording.DidYouMean(g, []string{"none", "auto"}), want)
		}
		if slices.Contains(list[:i], g) {
			t.errorf("gpus", "%q is there twice", g)
		}
	}
	return list
}

func (t tableReader) cost() CostConfig {
	t.known("cost")
	var c CostConfig
	if t.has("gpu_hour") {
		price, ok := t.number("gpu_hour", "a price, as 0.68")
		if ok && price < 0 {
			t.errorf("gpu_hour", "%g is negative", price)
		}
		c.GPUHour = price
	}
	return c
}
