package ci

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net/url"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/report"
	"github.com/kbisect/kbisect/bisect/report/words"
)

// The parts of a SARIF 2.1.0 log that a gate has.
type (
	sarifLog struct {
		Schema  string     `json:"$schema"`
		Version string     `json:"version"`
		Runs    []sarifRun `json:"runs"`
	}
	sarifRun struct {
		Tool        sarifTool         `json:"tool"`
		Invocations []sarifInvocation `json:"invocations"`
		Automation  sarifID           `json:"automationDetails"`
		ColumnKind  string            `json:"columnKind"`
		Results     []sarifResult     `json:"results"`
	}
	sarifTool struct {
		Driver sarifDriver `json:"driver"`
	}
	sarifDriver struct {
		Name    string      `json:"name"`
		Version string      `json:"version,omitempty"`
		Rules   []sarifRule `json:"rules"`
	}
	sarifRule struct {
		ID    string       `json:"id"`
		Name  string       `json:"name"`
		Short sarifMessage `json:"shortDescription"`
		Full  sarifMessage `json:"fullDescription"`
	}
	sarifMessage struct {
		Text string `json:"text"`
	}
	sarifInvocation struct {
		Successful bool `json:"executionSuccessful"`
		ExitCode   int  `json:"exitCode"`
	}
	sarifID struct {
		ID string `json:"id"`
	}
	sarifResult struct {
		RuleID       string            `json:"ruleId"`
		RuleIndex    int               `json:"ruleIndex"`
		Level        string            `json:"level"`
		Message      sarifMessage      `json:"message"`
		Locations    []sarifLocation   `json:"locations,omitempty"`
		Fingerprints map[string]string `json:"partialFingerprints"`
	}
	sarifLocation struct {
		Physical sarifPhysical `json:"physicalLocation"`
	}
	sarifPhysical struct {
		Artifact sarifArtifact `json:"artifactLocation"`
		Region   sarifRegion   `json:"region"`
	}
	sarifArtifact struct {
		URI  string `json:"uri"`
		Base string `json:"uriBaseId"`
	}
	sarifRegion struct {
		Start int `json:"startLine"`
		End   int `json:"endLine"`
	}
)

// sarifRules are the rules, one for each kind of verdict; their ids never change.
func sarifRules() []sarifRule {
	rule := func(id, name, short, full string) sarifRule {
		return sarifRule{id, name, sarifMessage{short}, sarifMessage{full}}
	}
	return []sarifRule{
		rule("KB-SLOW", "Slowdown", "A metric got worse", "Launched in turn with the merge base on one machine, HEAD gives a worse value of a metric."),
		rule("KB-TIMEOUT", "TimeOut", "HEAD times out", "HEAD exceeds a time limit that the merge base meets."),
		rule("KB-WRONG", "WrongResult", "HEAD computes wrong results", "HEAD fails a check that the merge base passes."),
		rule("KB-CRASH", "Crash", "HEAD crashes", "HEAD crashes where the merge base does not."),
		rule("KB-BUILD", "BuildFailure", "HEAD does not build", "HEAD does not build, and the merge base does."),
		rule("KB-CANNOT-TELL", "CannotTell", "The gate cannot tell", "The launches neither show nor rule out a change as large as is looked for."),
	}
}

// SARIF writes a gate as a SARIF 2.1.0 log. Its results lie on the lines of the culprit; where none is
// known, on the largest change of the branch, which the message then says.
func SARIF(w io.Writer, g *report.Gate, version string) error {
	run := sarifRun{
		Tool:        sarifTool{sarifDriver{"kbisect", version, sarifRules()}},
		Invocations: []sarifInvocation{{g.Result != "infra" && g.Result != "interrupted", g.ExitCode}},
		Automation:  sarifID{"kbisect/gate"}, ColumnKind: "unicodeCodePoints", Results: []sarifResult{},
	}
	if g.Failure != nil && g.Result == report.GateRegression {
		run.Results = append(run.Results, newResult(g, failureRule(g.Failure.Class), "error", g.Verdict, ""))
	} else if g.Failure != nil || g.Result == report.GateOpen && len(g.Contrasts) == 0 {
		run.Results = append(run.Results, newResult(g, "KB-CANNOT-TELL", "warning", g.Verdict, ""))
	}
	for _, x := range report.With(report.GateRegression, g.Contrasts) {
		run.Results = append(run.Results, newResult(g, "KB-SLOW", "error", words.Printable(x.Name())+" "+x.Change(g.ErrorRate)+" against the merge base.", x.Name()))
	}
	if g.Failure == nil && g.Result == report.GateOpen {
		for _, x := range report.With(report.GateOpen, g.Contrasts) {
			_, why := g.Line(x)
			run.Results = append(run.Results, newResult(g, "KB-CANNOT-TELL", "warning", words.Printable(x.Name())+": cannot tell: "+why+".", x.Name()))
		}
	}
	return report.WriteJSON(w, sarifLog{"https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json", "2.1.0", []sarifRun{run}})
}

func failureRule(c bisect.Class) string {
	rule := map[bisect.Class]string{bisect.Timeout: "KB-TIMEOUT", bisect.Wrong: "KB-WRONG", bisect.BuildFailed: "KB-BUILD"}[c]
	if rule == "" {
		return "KB-CRASH"
	}
	return rule
}

// newResult is one result; number is what it is about.
func newResult(g *report.Gate, rule, level, text, number string) sarifResult {
	sum := sha256.Sum256([]byte(rule + "\x00" + number))
	r := sarifResult{RuleID: rule, Level: level, Fingerprints: map[string]string{"kbisectNumber/v1": hex.EncodeToString(sum[:])}}
	for i, x := range sarifRules() {
		if x.ID == rule {
			r.RuleIndex = i
		}
	}
	places := g.Changed
	switch {
	case g.Culprit != nil:
		places = g.Culprit.Places
		text += " " + g.Culprit.Sentence() + "."
	case len(places) > 0:
		text += " Which commit did it is not known; this is the largest change of the branch."
	}
	r.Message = sarifMessage{text}
	if len(places) > 0 {
		p := places[0]
		r.Locations = []sarifLocation{{sarifPhysical{sarifArtifact{(&url.URL{Path: p.File}).EscapedPath(), "%SRCROOT%"}, sarifRegion{p.Start, p.End}}}}
	}
	return r
}
