package ci

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net/url"
	"slices"
	"strings"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/report"
	"github.com/kbisect/kbisect/bisect/report/words"
)

// object is an object of JSON. A test holds every key against the schema of SARIF 2.1.0.
type object = map[string]any

// message is a text in the form that SARIF wants of every text.
func message(text string) object { return object{"text": text} }

// sarifRules are the rules, one for each kind of verdict. Their ids never change: alerts that were opened or dismissed
// are known by them.
func sarifRules() []object {
	rule := func(id, name, short, full string) object {
		return object{"id": id, "name": name, "shortDescription": message(short), "fullDescription": message(full)}
	}
	return []object{
		rule("KB-SLOW", "Slowdown", "A metric got worse", "Launched in turn with the merge base on one machine, HEAD gives a worse value of a metric."),
		rule("KB-TIMEOUT", "TimeOut", "HEAD times out", "HEAD exceeds a time limit that the merge base meets."),
		rule("KB-WRONG", "WrongResult", "HEAD computes wrong results", "HEAD fails a check that the merge base passes."),
		rule("KB-CRASH", "Crash", "HEAD crashes", "HEAD crashes where the merge base does not."),
		rule("KB-BUILD", "BuildFailure", "HEAD does not build", "HEAD does not build, and the merge base does."),
		rule("KB-CANNOT-TELL", "CannotTell", "The gate cannot tell", "The launches neither show nor rule out a change as large as is looked for."),
	}
}

// SARIF writes a gate as a SARIF 2.1.0 log; version is that of kbisect, "" where it is not known. A result lies on the
// lines of the culprit; where there is none, on the largest change of the branch, and the message says so. The error
// is that of w.
func SARIF(w io.Writer, g *report.Gate, version string) error {
	results := []object{}
	add := func(rule, level, text, number string) {
		results = append(results, sarifResult(g, rule, level, text, number))
	}
	// At most one result is about how HEAD ends; every number that got worse, or is open, has one of its own.
	if g.Failure != nil && g.Result == report.GateRegression {
		add(failureRule(g.Failure.Class), "error", g.Verdict, "")
	} else if g.Failure != nil || g.Result == report.GateOpen && len(g.Contrasts) == 0 {
		add("KB-CANNOT-TELL", "warning", g.Verdict, "")
	}
	for _, x := range report.With(report.GateRegression, g.Contrasts) {
		add("KB-SLOW", "error", words.Printable(x.Name())+" against the merge base: "+x.Change(g.ErrorRate)+".", x.Name())
	}
	if g.Failure == nil && g.Result == report.GateOpen {
		for _, x := range report.With(report.GateOpen, g.Contrasts) {
			_, why := g.Line(x)
			add("KB-CANNOT-TELL", "warning", words.Printable(x.Name())+": cannot tell: "+strings.TrimSuffix(x.Change(g.ErrorRate)+"; "+why, "; ")+".", x.Name())
		}
	}
	// A reader tells "no results" from "could not look" only by the invocation.
	driver := object{"name": "kbisect", "rules": sarifRules()}
	if version != "" {
		driver["version"] = version
	}
	invocation := object{"executionSuccessful": !g.Stopped(), "exitCode": g.ExitCode}
	if g.Stopped() && g.Error != nil {
		invocation["toolExecutionNotifications"] = []object{{"level": "error", "message": message(*g.Error)}}
	}
	return report.WriteJSON(w, object{
		"$schema": "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json", "version": "2.1.0",
		"runs": []object{{
			"tool":              object{"driver": driver},
			"invocations":       []object{invocation},
			"automationDetails": object{"id": "kbisect/gate"}, "columnKind": "unicodeCodePoints", "results": results,
		}},
	})
}

// failureRule is the rule for how HEAD fails; classes without one of their own count as a crash.
func failureRule(c bisect.Class) string {
	rule := map[bisect.Class]string{bisect.Timeout: "KB-TIMEOUT", bisect.Wrong: "KB-WRONG", bisect.BuildFailed: "KB-BUILD"}[c]
	return cmp.Or(rule, "KB-CRASH")
}

// sarifResult is one result about a number, "" for how HEAD ends. Its fingerprint is made of the rule and the number
// alone, so that GitHub takes the same slowdown on the next commit for the same alert.
func sarifResult(g *report.Gate, rule, level, text, number string) object {
	places := g.Changed
	switch {
	case g.Culprit != nil:
		places = g.Culprit.Places
		text += " " + g.Culprit.Sentence() + "."
	case len(places) > 0:
		text += " Which commit did it is not known; this is the largest change of the branch."
	}
	// Not of the message, whose figures differ from run to run.
	sum := sha256.Sum256([]byte(rule + "\x00" + number))
	r := object{
		"ruleId": rule, "ruleIndex": slices.IndexFunc(sarifRules(), func(x object) bool { return x["id"] == rule }), "level": level,
		"message": message(text), "partialFingerprints": object{"kbisectNumber/v1": hex.EncodeToString(sum[:])},
	}
	// GitHub shows a result only where it has a location; one alone is shown of several.
	if len(places) > 0 {
		p := places[0]
		r["locations"] = []object{{"physicalLocation": object{
			"artifactLocation": object{"uri": (&url.URL{Path: p.File}).EscapedPath(), "uriBaseId": "%SRCROOT%"},
			"region":           object{"startLine": p.Start, "endLine": p.End},
		}}}
	}
	return r
}
