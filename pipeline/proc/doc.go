// Package proc runs one process tree: started, bounded by phase, killed whole
// and accounted. [Run] runs what a [Spec] describes and returns a [Result]; [Sweep]
// kills what a kbisect that was itself killed has left behind. The package must
// not know what its programs compute: protocol lines are passed on unread.
//
// A program under test may hang, ignore SIGTERM, call setsid, leave daemons
// behind that hold its standard output, or fork without end; and kbisect may
// itself be killed at any instant. To own such a tree safely, Run starts a warden
// for each trial: the same executable, started again through /proc/self/exe,
// which does nothing but supervise.
//
//	kbisect ──control──▶ warden (own session, child subreaper)
//	        ◀─reports──     └── leader (own session and group, dies with the warden)
//	        ◀─stdout, stderr, protocol───┴── whatever it forks
//
// Where a control group (version 2) is delegated to us, the leader is started
// in a group of its own, which the warden makes, kills in one stroke and
// removes; the warden stays outside. The group also freezes, limits and counts
// what the tree uses. It is an addition to what follows, which holds anywhere.
//
// In a [Sandbox] the warden is the first process of namespaces of its own: what
// is below it dies with it by the kernel's hand, cannot signal or stop it, and
// sees nothing outside; the leader's thread has mounts and privileges of its
// own besides. It is not the default: without root it takes a user namespace,
// in which setuid programs such as nvidia-modprobe and sudo do not work, most
// containers allow none, and programs would see other process numbers.
//
// Because the warden is the child subreaper, every process that loses its
// parent becomes the warden's child: none can leave the tree, and "no children
// left" (ECHILD) proves that the tree is empty. The warden learns of kbisect's
// death by the end of the control pipe, and the leader dies with the warden by
// the parent death signal. Should both be killed, Sweep finds what is left by a
// cookie, in the environment and in the group's name.
//
// The limits run in kbisect, which reads the phases from the protocol pipe and
// stamps every line with a monotonic time as it arrives; start and end of the
// leader, and the pauses of Spec.Pause, are stamped in the warden, on the same
// clock.
//
// A program of the same user can stop either by SIGSTOP, or lower its limits. The
// kernel continues both after a second, and both raise their limits again. A
// program that stops kbisect again and again is ended by the warden. Ctrl-Z
// freezes the trials before kbisect stops itself, and is not charged to them.
//
// The warden's side is package internal/warden; internal/ps lists and signals
// processes, internal/self protects the own one, and internal/cgroup has the control groups. Programs that call Run
// must call [Warden] first thing in main, and in TestMain of their tests. Linux
// only.
package proc
