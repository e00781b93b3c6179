package report

import "github.com/kbisect/kbisect/bisect"

// document is a finding document as a page reads it, whoever wrote it: the one of a search that
// has just ended, or one from the store.
type document struct {
	Session   string        `json:"session"`
	Axis      string        `json:"axis"`
	Result    bisect.Result `json:"result"`
	Headline  string        `json:"headline"`
	Complaint struct {
		Class  bisect.Class `json:"class"`
		Phase  string       `json:"phase"`
		Metric string       `json:"metric"`
	} `json:"complaint"`
	Culprits    []namedCulprit `json:"culprits"`
	Suspects    []suspect      `json:"suspects"`
	MinimalSets []flagSet      `json:"minimal_sets"`
	SafeSets    []flagSet      `json:"safe_sets"`
	Recommended *flagSet       `json:"recommended"`
	Effects     []struct {
		Terms []string `json:"terms"`
		Ratio float64  `json:"ratio"`
		Low   float64  `json:"low"`
		High  float64  `json:"high"`
	} `json:"effects"`
	Advice     string  `json:"advice"`
	Hypotheses []claim `json:"hypotheses"`
	Complete   bool    `json:"complete"`
	Ends       struct {
		Good     string `json:"good"`
		Bad      string `json:"bad"`
		Evidence string `json:"evidence"`
		Hint     string `json:"hint"`
	} `json:"ends"`
	Steps    []step    `json:"steps"`
	Range    int       `json:"range"`
	Matter   int       `json:"matter"`
	Tests    []flagSet `json:"tests"`
	Explain  *Table    `json:"explain"`
	Totals   Totals    `json:"totals"`
	Devices  []string  `json:"devices"`
	Warnings []string  `json:"warnings"`
	Error    string    `json:"error"`
}

// namedCulprit is a culprit as the document tells of it.
type namedCulprit struct {
	Commit     string          `json:"commit"`
	Parents    []string        `json:"parents"`
	Subject    string          `json:"subject"`
	Author     string          `json:"author"`
	Date       string          `json:"date"`
	Files      []string        `json:"files"`
	Effect     *bisect.Effect  `json:"effect"`
	Besides    []bisect.Effect `json:"besides"`
	Confidence float64         `json:"confidence"`
	Confirmed  bool            `json:"confirmed"`
	Hunks      []mark          `json:"hunks"`
}
