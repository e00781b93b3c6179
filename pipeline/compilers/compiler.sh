#!/bin/sh
# Stands in front of a compiler on the PATH of a workspace. It adds a candidate's options, and keeps objects: where a call,
# all that it reads, and the names of what it might find instead are those of an earlier one, what that wrote is copied.
real=@REAL@
@OPTIONS@
[ -n "$KBISECT_OBJECTS" ] || exec "$real" "$@"

# Only options that are known: with others an object may depend on more files, or not be all that is written.
nl='
'
key="$real$nl$KBISECT_TREE$nl${PWD#"$KBISECT_ROOT"}$nl$CPATH$nl$C_INCLUDE_PATH$nl$CPLUS_INCLUDE_PATH"
src='' out='' compile='' dep='' depfile='' dirs='' next=''
for a do
	key="$key$nl$a"
	case $next in
	out) out=$a next=''; continue ;;
	dep) depfile=$a next=''; continue ;;
	dir) dirs=$dirs$nl$a next=''; continue ;;
	value) next=''; continue ;;
	esac
	case $a in
	*"$nl"*) exec "$real" "$@" ;;
	-c) compile=yes ;;
	-o) next=out ;;
	-MD | -MMD) dep=$a ;;
	-MF) next=dep ;;
	-MP) ;;
	-I | -isystem | -iquote | -idirafter) next=dir ;;
	-I* | -isystem* | -iquote* | -idirafter*)
		dir=${a#-I} dir=${dir#-isystem} dir=${dir#-iquote}
		dirs=$dirs$nl${dir#-idirafter}
		;;
	-D | -U | -L | -MT | -MQ | -include | -isysroot) next=value ;;
	-f*=*/* | -f*dump* | -f*list* | -fauto* | -fbasic* | -fbranch* | -fcallgraph* | -fcompare* | -fcoverage*) exec "$real" "$@" ;;
	-fmodule* | -fopt-info* | -fpch* | -fplugin* | -fprofile* | -fsave* | -fstack-usage | -ftest* | -fthin* | -W*,* | -mllvm)
		case $a in
		-Wl,*) ;; # the linker's
		*) exec "$real" "$@" ;;
		esac
		;;
	-D* | -U* | -L* | -l* | -f* | -m* | -O* | -W* | -w | -std=* | -ansi | -pedantic* | -pipe | -pthread | -nostd* | -stdlib=*) ;;
	-g | -g[0123] | -ggdb | -ggdb[0123] | -gdwarf-[2345] | -g[cs]olumn-info | -gline-tables-only) ;;
	-*) exec "$real" "$@" ;;
	*.c | *.cc | *.cpp | *.cxx | *.C)
		[ -z "$src" ] || exec "$real" "$@"
		src=$a
		;;
	*) exec "$real" "$@" ;;
	esac
done
[ -n "$compile" ] && [ -n "$src" ] && [ -z "$next$COMPILER_PATH$GCC_EXEC_PREFIX$CCC_OVERRIDE_OPTIONS$DEPENDENCIES_OUTPUT$SUNPRO_DEPENDENCIES" ] || exec "$real" "$@"
if [ -z "$out" ]; then
	out=${src##*/}
	out=${out%.*}.o
fi
case $out in
*.o | *.lo) ;;
*) exec "$real" "$@" ;;
esac
case $dep in
-M*) [ -n "$depfile" ] || depfile=${out%.*}.d ;;
*) [ -z "$depfile" ] || exec "$real" "$@" ;;
esac

# sum is of the call, the files, and the names of headers where others are looked for, which a build may have written.
sum() {
	{
		printf '%s\n' "$key"
		around=$dirs$nl
		for file do
			case $file in
			*/*) dir=${file%/*} ;;
			*) dir=. ;;
			esac
			case $around in
			*"$nl$dir$nl"*) ;;
			*) around=$around$dir$nl ;;
			esac
		done
		IFS=$nl
		for dir in $around; do
			case $dir in
			'' | /usr/*) ;;
			*) printf '%s\n' "$dir"/*.[hi]* "$dir"/*/*.[hi]* ;;
			esac
		done
		sha256sum -- "$@" 2>/dev/null </dev/null || {
			read -r only </proc/self/stat
			echo "$only" # equals no other
		}
	} | sha256sum
}

# What such a call has read last is listed in a file by the name of what it writes.
name='' rest=${PWD#"$KBISECT_ROOT"}/$out
while [ "$rest" != "${rest#*/}" ]; do
	name=$name%${rest%%/*} rest=${rest#*/}
done
list=$KBISECT_OBJECTS/$name%$rest
if [ -f "$list" ]; then
	was=$(
		set --
		while IFS= read -r file; do
			set -- "$@" "$file"
		done <"$list"
		sum "$@"
	)
	was=${was%% *}
	kept=$KBISECT_OBJECTS/$was
	if [ -f "$kept.o" ]; then
		[ ! -e "$out" ] || rm -f "$out"
		if cp "$kept.o" "$out" 2>/dev/null && { [ -z "$depfile" ] || cp "$kept.d" "$depfile" 2>/dev/null; }; then
			[ ! -f "$kept.err" ] || cat "$kept.err" >&2
			exit 0
		fi
		exec "$real" "$@"
	fi
fi

# compile has it list all that it reads, system headers too: another header may be found under their names.
compile() {
	for a do
		shift
		[ "$a" != -MMD ] || a=-MD
		set -- "$@" "$a"
	done
	[ -n "$dep" ] || set -- "$@" -MD -MF "$new.d"
	exec "$real" "$@"
}

[ -w "$KBISECT_OBJECTS" ] && [ -d "$KBISECT_OBJECTS" ] || exec "$real" "$@"
new=$KBISECT_OBJECTS/new.$$
(: >"$new") 2>/dev/null || exec "$real" "$@"
err=$(compile "$@" 2>&1 >/dev/null)
code=$?
case $err in
*"$new"*) exec "$real" "$@" ;; # the list cannot be written
esac
[ -z "$err" ] || printf '%s\n' "$err" >&2
[ $code = 0 ] || {
	rm -f "$new"
	exit $code
}

# keep keeps what was written, by the files that the compiler lists.
keep() {
	set -f
	set --
	while IFS= read -r line; do
		for file in ${line%\\}; do
			case $file in
			*:) ;;
			*[\\$]*) return ;;
			/usr/include/* | /usr/lib/*) ;; # they do not change meanwhile
			*.[cChH] | *.cc | *.[ch]pp | *.[ch]xx | *.hh | *.cuh | *.in[cl] | *.ipp | *.tcc | *.def) set -- "$@" "$file" ;;
			*) return ;; # compiled headers, and what [Tree] does not count
			esac
		done
	done <"${depfile:-$new.d}"
	[ $# -gt 0 ] || return
	set +f
	for file do # which the compiler may have read before it was written
		[ "$new" -nt "$file" ] || return
	done
	# Which the text depends on besides, or the assembler reads.
	! LC_ALL=C grep -q -e '\.incbin' -e '\.include' -e __DATE__ -e __TIME__ -e __TIMESTAMP__ -- "$@" || return
	sum=$(sum "$@")
	sum=${sum%% *}
	[ ${#sum} = 64 ] || return
	kept=$KBISECT_OBJECTS/$sum
	[ -z "$depfile" ] || cp "$depfile" "$kept.d" || return
	[ -z "$err" ] || printf '%s\n' "$err" >"$kept.err" || return
	cp "$out" "$new.o" && mv "$new.o" "$kept.o" && printf '%s\n' "$@" >"$list"
}
keep 2>/dev/null
rm -f "$new" "$new.d"
exit 0
