/*
Kbisect finds the change that made a GPU kernel time out, slow down, crash or compute nonsense.

It walks a git history, builds and runs each candidate under limits for every phase, and names the
guilty commit, the phase, the evidence and the price. The user's work tree, index, HEAD and refs are
never touched; kbisect exports candidates into folders of its own.

# A command, no configuration

The command runs in a clean export of each candidate: 0 is good, 125 is skip, anything else is bad,
128 and up is a crash of the candidate. A script written for git bisect run works unchanged, also
when it is not committed.

	$ kbisect run --good v1 --limit 20s -- ./test.sh
	… introduces wrong results (exit 1…)
	  subject     change 7
	  confidence  99.… %, confirmed: …

--build gives a shell command that builds a candidate first. A build that fails is untestable and
accuses nobody, unless the bad end itself does not build.

	$ kbisect run --good v1 --build 'cp n built' -- sh -c 'test $(cat built) -lt 7'
	… introduces wrong results …
	11 commits in the range, 11 to search…

# A project with kbisect.toml

kbisect init writes a commented kbisect.toml for the kind of project that it finds; kbisect run then
needs only the ends. Its limits bound each phase; a program names its phases by lines on the
descriptor that KBISECT_FD names. One line, one fact; everything is optional:

	phase: NAME                  enter a phase (the start is load, from the last line to the exit is teardown)
	case: NAME                   what follows is about this shape or input
	sample: 46.8 us              one timing of the current case
	metric NAME: VALUE UNIT      any other number
	check: pass                  or check: fail WHY
	skip: WHY                    untestable, blame nobody
	infra: WHY                   the machine's fault

	$ kbisect init
	… written for a project of kind make

# After it

Everything is kept in the repository's common git folder; a search that was interrupted or killed
goes on where it stopped.

	$ kbisect sessions
	SESSION … RESULT …
	… found …
	$ kbisect show
	session   …, found
	$ kbisect run --resume
	… introduces wrong results …

# Two revisions, one revision, the past

kbisect compare launches two revisions in turn until it is clear whether the second is worse, better or neither, and says
by how much; exit 1 is a regression. kbisect measure launches one revision and describes it, and kbisect history lists
what the store holds by commit. Each takes a command after --, or kbisect.toml.

	$ kbisect compare v1 HEAD -- sh -c 'echo "sample: 30 us" >&$KBISECT_FD'
	No difference of 3 % or more: time changes by +0.00 to +0.00 %, lower is better.
	  no difference  time    lower   30.00 µs …
	$ kbisect measure v1 --launches 2 -- sh -c 'echo "sample: 30 us" >&$KBISECT_FD'
	Each of 2 launches ended well.
	$ kbisect history --metric time
	time, lower is better; … echo "sample: 30 us" …
	  … 30.00 µs … change 11

What the wall clock tells too noisily, the kernel may count: --metric cpu is the processor time of the whole process tree,
--metric instructions what it executed in user mode, where this machine can count that.

	$ kbisect measure v1 --launches 1 --metric cpu -- sh -c 'echo hello'
	The launch ended well.
	  cpu …

kbisect explain says why two revisions differ: their phases, registers, spills, occupancy, machine code and kernels, and
what the profilers saw that this machine has and allows; it begins with the two or three figures that changed most.

	$ kbisect explain v1 HEAD --launches 1 -- sh -c 'echo "sample: 30 us" >&$KBISECT_FD'
	  A …
	  phases  measured time … 30.00 µs …

# A gate for branches

kbisect gate sets HEAD against its merge base with the branch that it goes into, paired and in one job, and exits 1 when HEAD is
worse. It writes JUnit, SARIF and Markdown, and in a job of GitHub a summary and one annotation. --bisect names the commit of the
branch; --accept REASON records what is worse on purpose in a file of the repository, for this branch alone.

	$ kbisect gate --base v1 -- sh -c 'echo "sample: 30 us" >&$KBISECT_FD'
	…Pass: no change of 3 % or more: time changes by +0.00 to +0.00 %, lower is better.
	…pass … time … 30.00 µs … a change of 3 % is ruled out

# The machine

kbisect doctor --noise launches one revision again and again, and says how small a slowdown a search would find on this
machine, and at what price.

# Reports

run, compare, measure, explain, history and gate print text, or JSON with --json; --report FILE writes one HTML file
that needs nothing else and makes no requests, --markdown FILE the same for a pull request. kbisect report writes both for
a past session, and a log that git bisect replay takes.

	$ kbisect report
	### kbisect: found
	$ kbisect report --git-log
	git bisect start …
	# first bad commit: …

# Help

kbisect COMMAND --help explains a command, and kbisect man prints all of it as a manual page. With the script that kbisect completion
prints, a shell completes commands, options and revisions.

	$ kbisect completion bash
	complete -F _kbisect kbisect
	$ kbisect man
	…
	.TH kbisect 1…

# Exit codes

0 answer found or no regression, 1 regression found, 2 usage or configuration, 3 inconclusive, 4 the ends do not differ, 5 machine
trouble, 70 internal error, 130 interrupted (resumable).
*/
package main
