package config

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/kbisect/kbisect/cmd/kbisect/internal/wording"
	"github.com/kbisect/kbisect/kernels"
	"github.com/kbisect/kbisect/kernels/metrics"
	"github.com/kbisect/kbisect/pipeline"
	"github.com/kbisect/kbisect/pipeline/trial"
)

// metricSources lists where numbers can come from: the values of metric.from, in the order in which a mistake lists
// them.
func metricSources() []string {
	return slices.Concat([]string{"protocol", "wall"}, metrics.SourceNames(true), []string{"phase", "regex"}, metrics.SourceNames(false), []string{"popcorn", "static"})
}

// PhaseNames lists the standard phases of a trial in their order, without the build.
func PhaseNames() []string {
	return []string{"load", "warmup", "capture", "check", "measure", "teardown"}
}

// schema lists the keys of every table except [run.limits], whose keys are the phases of the program, and
// [executor]'s tables of amounts and labels.
func schema() map[string][]string {
	metric := []string{"name", "unit", "better", "from", "pattern", "file", "case"}
	return map[string][]string{
		"":        {"version", "kind", "paths", "task", "build", "run", "metric", "metrics", "judge", "device", "cost", "executor", "flag", "hypothesis"},
		"task":    {"problem", "mode", "submission", "reference", "cases"},
		"build":   {"command", "limit", "memory", "jobs", "outputs", "incremental", "sources", "options"},
		"run":     {"command", "limit", "limits", "memory", "files", "keep", "caches", "probe", "workspace", "sandbox", "network", "learn", "ahead", "gpus"},
		"metric":  metric,
		"metrics": metric,
		"judge":   {"effect", "error"},
		"device":  {"gpus"},
		"cost":    {"gpu_hour"},
		"executor": {"kind", "jobs", "shared", "transport", "partition", "account", "qos", "gres", "constraint", "container", "time", "options", "build",
			"context", "namespace", "image", "resources", "build_resources", "node_selector", "tolerations", "volumes", "service_account", "queue", "pod_template", "submit", "state", "cancel"},
		"flag":       {"name", "values", "bad", "ordered", "env", "define", "arg", "option", "requires", "excludes", "parts"},
		"hypothesis": {"name", "claim"},
	}
}

// readConfig reads the whole document. The kind comes first, since it decides which keys of [task] and [build] are
// allowed, and flags come before the hypotheses about them.
func readConfig(t table) *Config {
	c := &Config{Path: t.r.file}
	checkVersion(t)
	c.Kind = t.choice("kind", kernels.KindNames())
	c.Paths = t.paths("paths", `["kernels/", "bench.py"]`)
	c.Task = readTask(t.table("task"), c.Kind)
	c.Build = readBuild(t.table("build"), c.Kind)
	c.Run = readRun(t.table("run"))
	c.Metrics = readMetrics(t)
	c.Judge = readJudge(t.table("judge"))
	c.GPUs = readGPUs(t.table("device"))
	c.GPUHour = readCost(t.table("cost"))
	c.Executor = readExecutor(t.table("executor"))
	c.Flags = readFlags(t)
	c.Hypotheses = readHypotheses(t, c.Flags)
	c.Warnings = t.r.warnings
	return c
}

// checkVersion refuses a file of a later version, which may mean something else by the same keys. A file without a
// version is one of version 1.
func checkVersion(t table) {
	n, ok := value[int64](t, "version", "the integer 1")
	if ok && n != 1 {
		t.errorf("version", "unknown version %d; this kbisect reads version = 1", n)
	}
}

// readBuild reads [build]. Sources and options belong to kinds that need no command.
func readBuild(t table, kind string) BuildConfig {
	for _, key := range []string{"sources", "options"} {
		switch {
		case t.has(key) && !slices.Contains(kindsOf(key), kind):
			t.errorf(key, "belongs to kind = %s; this is kind %q", OneOf(kindsOf(key)), cmp.Or(kind, kernels.KindCommand))
		case t.has(key) && t.has("command"):
			t.errorf(key, "[build] command already says how to build; remove one of them")
		}
	}
	return BuildConfig{
		Command:     t.command("command"),
		Limit:       t.duration("limit"),
		Memory:      t.bytes("memory"),
		Jobs:        jobs(t, "builds", "; 1 builds nothing ahead"),
		Outputs:     t.paths("outputs", `["bench"]`),
		Incremental: optional[bool](t, "incremental", "true or false"),
		Sources:     t.paths("sources", `["bench.cu"]`),
		Options:     t.strs("options", `an array of options of nvcc, such as ["-O3", "-lineinfo"]`),
	}
}

// jobs reads how many builds or jobs run at a time; 0 if the file does not say. what is the plural noun.
func jobs(t table, what, hint string) int {
	n, ok := value[int64](t, "jobs", "a whole number of "+what+" at a time")
	if ok && (n < 1 || n > 1024) {
		t.errorf("jobs", "expected 1 to 1024 %s at a time, got %d%s", what, n, hint)
	}
	return int(n)
}

// auto reads one of a few words, or auto, which is returned as "": so is a missing key, and both mean the same.
func auto(t table, key string, choices ...string) string {
	if s := t.choice(key, append([]string{"auto"}, choices...)); s != "auto" {
		return s
	}
	return ""
}

// readRun reads [run]. learn and ahead are on unless the file turns them off, which is why their fields are negated:
// the zero value of a Config is then the usual one.
func readRun(t table) RunConfig {
	c := RunConfig{
		Command: t.command("command"), Limit: t.duration("limit"), Memory: t.bytes("memory"),
		Files:  t.paths("files", `["bench.py"]`),
		Keep:   t.paths("keep", `["data/"]`),
		Caches: pipeline.Caches(auto(t, "caches", "cold", "warm")), Probe: trial.Probe(auto(t, "probe", "on", "off")),
		Workspace: t.choice("workspace", []string{"auto", "disk"}),
	}
	c.Limits = readLimits(t.table("limits"))
	c.Sandbox, _ = value[bool](t, "sandbox", "true or false")
	c.Network, _ = value[bool](t, "network", "true or false")
	learn, ok := value[bool](t, "learn", "true or false")
	c.NoLearn = ok && !learn
	c.GPUs = readSpread(t)
	ahead, ok := value[bool](t, "ahead", "true or false")
	c.NoAhead = ok && !ahead
	return c
}

// readLimits reads [run.limits], whose keys are the phases of the program. A name that nearly is a standard phase
// gives a warning, as it would limit nothing. Warnings are sorted because the order of a map is random.
func readLimits(t table) map[string]kernels.Limit {
	if len(t.values) == 0 {
		return nil
	}
	out := make(map[string]kernels.Limit, len(t.values))
	for name := range t.values {
		s, ok := value[string](t, name, `a duration in quotes, such as "60s", or a multiple of the baseline, such as "4x"`)
		switch {
		case !ok:
			continue
		case name == "build":
			t.errorf(name, "the limit of the build is limit in [build]")
			continue
		case !isName(name, "", "_.:/-"):
			t.errorf(name, "invalid phase name %q; use letters, digits, and - _ . : /", name)
			continue
		}
		l, err := parseLimit(s)
		if err != nil {
			t.errorf(name, "%v", err)
			continue
		}
		if near := wording.Nearest(name, PhaseNames()); near != "" && near != name {
			t.r.warn(t.at(name), "%q is taken as a phase of your own; did you mean the standard phase %q?", name, near)
		}
		out[name] = l
	}
	slices.Sort(t.r.warnings)
	return out
}

// readMetrics reads the one [metric] or all [[metrics]]. The same metric may appear once for each case.
func readMetrics(t table) []Metric {
	if t.has("metric") && t.has("metrics") {
		t.errorf("metrics", "both [metric] and [[metrics]]; write every metric as [[metrics]]")
	}
	var out []Metric
	if m := t.table("metric"); m.values != nil {
		out = append(out, readMetric(m))
	}
	seen := map[string]bool{}
	for _, m := range t.tables("metrics") {
		metric := readMetric(m)
		if id := metric.WithDefaults().Name + "\x00" + metric.Case; seen[id] {
			m.errorf("name", "duplicate metric %q", metric.WithDefaults().Name)
		} else {
			seen[id] = true
		}
		out = append(out, metric)
	}
	return out
}

// readMetric reads one metric and asks for what its source needs besides.
func readMetric(t table) Metric {
	m := Metric{
		Name:    t.str("name"),
		Unit:    t.str("unit"),
		Better:  t.choice("better", []string{"lower", "higher"}),
		From:    t.choice("from", metricSources()),
		Pattern: t.str("pattern"),
		File:    t.file("file"),
		Case:    t.str("case"),
	}
	for _, x := range [][2]string{{"name", m.Name}, {"case", m.Case}} {
		if strings.ContainsFunc(x[1], unicode.IsControl) {
			t.errorf(x[0], "invalid value %q; it must not hold a line break or another control character", x[1])
		}
	}
	if err := checkUnit(m.Unit); err != nil {
		t.errorf("unit", "%v", err)
	}
	switch _, given := t.values["pattern"].(string); {
	case m.From == "regex" && !t.has("pattern"):
		t.errorf("from", `regex needs a pattern, such as pattern = 'time (?P<value>[0-9.]+) (?P<unit>ms|us)'`)
	case given && m.From != "regex" && (m.From != "" || !t.has("from")):
		t.errorf("pattern", `needs from = "regex"`)
	case m.Pattern != "":
		checkPattern(t, m.Pattern)
	}
	checkResultFile(t, m)
	return m
}

// checkResultFile asks for the file of results if the source of the metric is a file, and refuses one otherwise.
func checkResultFile(t table, m Metric) {
	for _, s := range metrics.Sources() {
		if s.Name != m.From || s.Counted {
			continue
		}
		if !t.has("file") {
			t.errorf("from", "%s needs the file that the run writes, such as %s", s.Name, s.Example)
		}
		return
	}
	if t.has("file") && (m.From != "" || !t.has("from")) {
		t.errorf("file", "needs from = %s", OneOf(metrics.SourceNames(false)))
	}
}

// checkPattern checks the regular expression of a metric that is read from the output. Whether it matches anything
// shows only when a program has run.
func checkPattern(t table, pattern string) {
	re, err := regexp.Compile(pattern)
	if err != nil {
		t.errorf("pattern", "invalid regular expression (Go syntax, as grep -E without back references): %v", err)
		return
	}
	if re.SubexpIndex("value") < 0 {
		t.errorf("pattern", `missing group "value"; put (?P<value>…) around the number`)
	}
}

// readJudge reads [judge]. error is a probability and not a percentage; its bounds refuse a 1 that is meant as 1 %.
func readJudge(t table) judgeConfig {
	var c judgeConfig
	if t.has("effect") {
		c.Effect = readEffect(t)
	}
	if t.has("error") {
		p, ok := t.number("error", "a number, such as 0.01")
		if ok && !(p > 0 && p < 0.5) {
			t.errorf("error", "invalid error probability %g; expected a number above 0 and below 0.5, such as 0.01", p)
		}
		c.Error = p
	}
	return c
}

// readEffect reads a share, as a number (0.03) or as a text in percent ("3%"). It returns the number.
func readEffect(t table) (f float64) {
	var err error
	if s, ok := t.values["effect"].(string); ok {
		f, err = ParseEffect(s)
	} else if f, ok = t.number("effect", `a share, such as "3%" or 0.03`); ok {
		err = checkEffect(f)
	}
	if err != nil {
		t.errorf("effect", "%v", err)
	}
	return f
}

var gpuName = regexp.MustCompile(`^([0-9]{1,4}|(GPU|MIG)-[0-9A-Za-z/-]+)$`)

// readGPUs reads devices in all the forms in which people write them. Whether they exist shows when they are used:
// the file may be for another machine.
func readGPUs(t table) []string {
	const want = `"none", "auto", an index, a UUID, or an array of these`
	var list []string
	switch v := t.values["gpus"].(type) {
	case nil:
		return nil
	case int64:
		list = []string{strconv.FormatInt(v, 10)}
	case string:
		if v == NoGPUs || v == "auto" {
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
		if !gpuName.MatchString(g) {
			t.errorf("gpus", "invalid device %q%s; expected %s", g, wording.DidYouMean(g, []string{"none", "auto"}), want)
		}
		if slices.Contains(list[:i], g) {
			t.errorf("gpus", "duplicate device %q", g)
		}
	}
	return list
}

// NoGPUs is the value that stands for no device at all.
const NoGPUs = "none"

// readSpread reads the devices that a search uses side by side, as the text that CheckSpread checks. A list of one
// device keeps a comma at its end, which tells the device 2 from two devices.
func readSpread(t table) string {
	const want = `a number of devices, "all", "none", or an array of indices and UUIDs`
	text := ""
	switch v := t.values["gpus"].(type) {
	case nil:
		return ""
	case int64:
		text = strconv.FormatInt(v, 10)
	case string:
		text = v
	case []any:
		text = strings.Join(readGPUs(t), ",")
		if len(v) == 1 {
			text += ","
		}
	default:
		t.wrongType("gpus", want)
		return ""
	}
	if err := CheckSpread(text); err != nil {
		t.errorf("gpus", "%v", err)
	}
	return text
}

// CheckSpread checks the devices for a search to use side by side: a number of them, all, none, or indices and
// UUIDs with commas. Whether they exist is not checked.
func CheckSpread(text string) error {
	if n, err := strconv.Atoi(text); text == "all" || text == NoGPUs || err == nil && n >= 1 && n <= 1024 {
		return nil
	} else if err == nil {
		return fmt.Errorf("%d: expected 1 to 1024 devices", n)
	}
	for name := range strings.SplitSeq(strings.TrimSuffix(text, ","), ",") {
		if !gpuName.MatchString(strings.TrimSpace(name)) {
			return fmt.Errorf("invalid device %q; expected a number of devices, \"all\", \"none\", or indices and UUIDs with commas, such as \"0,1\"", name)
		}
	}
	return nil
}

// readCost reads the price of one device hour, in whatever currency the user thinks of: reports show costs without one.
func readCost(t table) (price float64) {
	if t.has("gpu_hour") {
		if price, _ = t.number("gpu_hour", "a price, such as 0.68"); price < 0 {
			t.errorf("gpu_hour", "invalid price %g; expected 0 or more", price)
		}
	}
	return price
}
