#!/bin/sh
# Goes through the phases of a trial and hangs in the one that is named, see hang.c.
say() { echo "$1" >&"$KBISECT_FD"; }
hang() {
	if [ -n "$2" ]; then
		setsid sh -c 'trap "" TERM; while :; do sleep 1; done' &
		trap "" TERM
	fi
	while :; do sleep 1; done
}
for phase in load warmup capture check measure; do
	[ $phase = load ] || say "phase: $phase"
	[ $phase != "$1" ] || hang "$@"
	[ $phase != check ] || say "check: pass"
	[ $phase != measure ] || { say "sample: 3 us"; say "sample: 4 us"; }
done
[ "$1" != teardown ] || hang "$@"
exit 0
