// Package bisect is the vocabulary of kbisect's pure core: what a candidate, an outcome, a verdict and a finding are,
// the shape of a history ([Graph]), and the [Sampler] that makes launches.
//
// It must not know git, processes, GPUs or the wall clock, nor must what is built on it: a whole search runs in
// milliseconds against a truth table, so that tests can afford thousands of them. For the same reason [Foresight] can
// tell, by making a search again, what it will ask for next.
//
// Imports point here: package find finds the commit that introduced a failure or a slowdown (its loop is package
// search), and asks package belief what launches say about where it is; package report turns a [Finding] into text and
// JSON, package pipeline is the Sampler that builds and runs.
//
// # Glossary
//
// What is searched:
//
//   - range: the commits after a good end, up to and including a bad end. It may hold branches and merges.
//   - good end, bad end: the two revisions that a search starts from. The good end is the baseline: what
//     candidates are compared with. It lies just before the range; the bad end is its last commit.
//   - candidate: one thing to build and run, a commit with the flags that are set ([Candidate]).
//   - equal inputs: two commits of which build and run read the same files. They share a key and a verdict.
//   - culprit: a commit that shows the complaint while all of its parents do not ([Culprit]).
//   - suspect: a commit that may be the culprit, with its probability ([SuspectCommit]).
//   - segment: a part of the range between a commit that is good and a later one that fails in one way; it
//     holds a culprit.
//
// What is observed:
//
//   - launch: one fresh process of a candidate. Launches scatter independently, samples inside a process do
//     not; so a launch counts as one observation.
//   - trial: one launch with the build it needs; asked for by a [Request], named by a [TrialID].
//   - purpose: why a trial is asked for: an end, the search, the proof ([Purpose]).
//   - phase: a named part of a run, such as build, warm-up, measure or teardown, with a limit of its own ([PhaseTime]).
//   - outcome: all that a trial showed ([Outcome]).
//   - class: how a trial ended: ok, timeout, wrong, crash, build-failed, skip, infra ([Class]). Slow and improved
//     are classes of a complaint, never of one trial.
//   - censored: said of a launch that was stopped early: it would have taken at least that long.
//   - metric, case: a number that a launch gives, and the shape or input that it belongs to ([Series]).
//   - level: the number of a launch as a logarithm, larger is worse; 0.01 is about 1 %.
//   - step: by how much the level changes at a culprit. Ramp: a change spread over many commits.
//   - noise: what launches of one commit scatter by. Drift: how the machine's level moves with time. Modes: two
//     levels between which launches of one commit fall. Disturbed: a launch that something else slowed down.
//
// What is concluded:
//
//   - complaint: what the bad end shows and the good end does not ([Complaint]). Certain complaints show in every
//     launch of a bad commit, flaky ones only in some.
//   - prior: how likely a commit is the culprit before any launch, from the files that it touches.
//   - evidence: what launches add to the prior; likelihood: how probable they are under a hypothesis.
//   - belief: prior and evidence together: a probability for each commit (package belief). The posterior is
//     the same thing as numbers.
//   - verdict: the judgement of one candidate, good, bad or untestable, with its probability ([Verdict]).
//   - untestable: of a candidate that cannot be built, is skipped, or fails in another way than the complaint.
//   - proof, or confirmation: fresh launches of the culprit and its parents from clean builds (package search).
//   - effect: the ratio of a metric with its 95 % interval ([Effect]).
//   - finding: the answer of a search: found, inconclusive, or no difference ([Finding]).
//   - infra: trouble of the machine, not of a candidate. It stops a search and never accuses a commit ([InfraError]).
package bisect
